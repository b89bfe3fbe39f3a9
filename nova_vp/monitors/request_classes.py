# SPDX-License-Identifier: Apache-2.0
"""Request classes: which kind of requests arrive says which servers will be busy next.

Source: thesis 2013, 4.5.2.1 (the web server counts requests of each kind), and the x86-IXP paper,
3.1 (they are told apart outside the guest; types that alternate quickly mislead it). What raises
the servers of one class lowers those of no frequent class. Counts are remembered for a while, and a
class is frequent only while it clearly is. Where none was for a while, all goes back.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nova_vp.core.types.overlay import Direction, Nack, Verb
from nova_vp.monitors.base import Wanted


@dataclass(frozen=True, slots=True)
class RequestSettings:
    memory_s: float = 15.0
    """What came so long ago counts for a third. All goes back where no class was frequent for so
    long."""
    frequent_ratio: float = 0.6
    """Share of the requests from which a class is frequent."""
    rare_ratio: float = 0.5
    """Share below which one that was frequent is so no more."""
    steps_down: int = 5
    """Of a server that is not needed: half of its CPU."""
    steps_up: int = 0
    """Of one that is needed, above what it has without any call."""
    borrows: int = 0
    """CPUs that are borrowed for a server that has all of its own."""
    loan_s: float = 60.0
    renew_s: float = 25.0
    """How often what a server was granted is renewed: well within its lease."""
    retry_s: float = 5.0
    """After a refusal."""


class RequestClasses:
    def __init__(
        self, servers_of: Mapping[str, Sequence[str]], settings: RequestSettings | None = None
    ) -> None:
        """`servers_of`: by class, the servers that its requests keep busy."""
        self._servers_of = servers_of
        self._settings = settings or RequestSettings()
        self._counts = dict.fromkeys(servers_of, 0.0)
        self._seen_at_s = 0.0
        self._frequent: frozenset[str] = frozenset()
        self._frequent_at_s = 0.0
        """When one was so last."""
        servers = sorted({one for some in servers_of.values() for one in some})
        self._steps = dict.fromkeys(servers, 0)
        """By which each is tuned: below 0, down."""
        self._loan_ends_s: dict[str, float] = {}
        self._not_before_s: dict[str, float] = {}
        self._renewed_at_s: dict[str, float] = {}
        """Of servers that were granted something."""

    def see(self, counts: Mapping[str, int], now_s: float) -> None:
        """Requests of each class that arrived since it was told last. Unknown classes are left
        out."""
        keep = 3.0 ** (-(now_s - self._seen_at_s) / self._settings.memory_s)
        self._seen_at_s = now_s
        for kind in self._counts:
            self._counts[kind] = self._counts[kind] * keep + counts.get(kind, 0)
        total = sum(self._counts.values())
        if total > 0.0:
            self._frequent = frozenset(
                kind
                for kind, count in self._counts.items()
                if self._is_frequent(kind, count / total)
            )
        if self._frequent:
            self._frequent_at_s = now_s

    def _is_frequent(self, kind: str, ratio: float) -> bool:
        settings = self._settings
        least = settings.rare_ratio if kind in self._frequent else settings.frequent_ratio
        return ratio >= least

    def wanted(self, now_s: float) -> Sequence[Wanted]:
        calls = self._changes(now_s)
        released = {call.server for call in calls if call.verb is Verb.RELEASE}
        due = sorted(one for one in self._steps.keys() - released if self._is_due(one, now_s))
        return [*(Wanted(Verb.RENEW, one) for one in due), *calls]

    def _changes(self, now_s: float) -> list[Wanted]:
        if not self._frequent:
            return self._all_back(now_s)
        needed = {one for kind in self._frequent for one in self._servers_of[kind]}
        down = -self._settings.steps_down
        lowered = [self._lower(one, down, now_s) for one in self._steps if one not in needed]
        raised = [self._raise(one, now_s) for one in self._steps if one in needed]
        return [call for some in (*lowered, *raised) for call in some]

    def _all_back(self, now_s: float) -> list[Wanted]:
        """Those that have more give it back before those that have less get theirs."""
        if now_s - self._frequent_at_s < self._settings.memory_s:
            return []
        ranked = sorted(self._steps, key=lambda one: -self._steps[one])
        return [call for one in ranked for call in self._lower(one, 0, now_s)]

    def _is_due(self, server: str, now_s: float) -> bool:
        if not self._has_loan(server, now_s) and not self._steps[server]:
            return False
        return now_s - self._renewed_at_s[server] >= self._settings.renew_s

    def _lower(self, server: str, steps: int, now_s: float) -> list[Wanted]:
        """To so many steps, without a loan: what was tuned goes back with what was borrowed."""
        calls, has = [], self._steps[server]
        if self._has_loan(server, now_s):
            calls, has = [Wanted(Verb.RELEASE, server)], 0
        if self._may_call(server, now_s):
            calls += _tunes(server, steps - has)
        return calls

    def _raise(self, server: str, now_s: float) -> list[Wanted]:
        if not self._may_call(server, now_s):
            return []
        calls = _tunes(server, self._settings.steps_up - self._steps[server])
        if self._settings.borrows and not self._has_loan(server, now_s):
            lease_s = self._settings.loan_s
            cpus = self._settings.borrows
            calls.append(Wanted(Verb.BORROW, server, cpus=cpus, lease_s=lease_s))
        return calls

    def _has_loan(self, server: str, now_s: float) -> bool:
        return self._loan_ends_s.get(server, 0.0) > now_s

    def _may_call(self, server: str, now_s: float) -> bool:
        return now_s >= self._not_before_s.get(server, 0.0)

    def answered(self, call: Wanted, nack: Nack | None, now_s: float) -> None:
        server = call.server
        if call.verb is Verb.RELEASE or nack is Nack.NOTHING_TO_RENEW:
            # All of it ended, whatever the reason: begin anew.
            self._loan_ends_s.pop(server, None)
            self._steps[server] = 0
        elif nack is not None:
            self._not_before_s[server] = now_s + self._settings.retry_s
        else:
            self._note_granted(call, now_s)

    def _note_granted(self, call: Wanted, now_s: float) -> None:
        server = call.server
        if call.verb is Verb.TUNE:
            self._steps[server] += 1 if call.direction is Direction.UP else -1
        if call.verb is Verb.BORROW or (call.verb is Verb.RENEW and server in self._loan_ends_s):
            self._loan_ends_s[server] = now_s + self._settings.loan_s
        self._renewed_at_s[server] = now_s


def _tunes(server: str, steps: int) -> list[Wanted]:
    direction = Direction.UP if steps > 0 else Direction.DOWN
    return [Wanted(Verb.TUNE, server, direction)] * abs(steps)
