# SPDX-License-Identifier: Apache-2.0
"""What applications report of the latency and load of their servers here, in memory alone.

Reports arrive on other threads, signed by vp-api; the tick asks for them. A report that is not used
is counted by its reason, for operators: a tenant may report whatever it likes, and very often.
Nothing here decides or touches a guest.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from nova_vp import wire
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.service_level import LatencyReport
from nova_vp.latency_message import (
    AHEAD_S,
    LATE_S,
    LEAST_INTERVAL_S,
    Ignored,
    LatencyMessage,
    read_latency,
)
from nova_vp.message_filter import MessageFilter
from vp_agent.latency.base import Asked


class Reported(NamedTuple):
    """The last report of a server that was used."""

    latency_ms: float
    load: float | None
    measured_s: float
    """When, by the clock of the ticks."""


@dataclass(frozen=True, slots=True)
class Judged:
    """By what of a server its reports are judged."""

    project_id: str
    is_critical: bool
    percentile: float
    target_ms: float | None
    """Another one judges the same reports."""

    @classmethod
    def of(cls, guest: Guest) -> "Judged":
        return cls(
            guest.project_id,
            guest.is_latency_critical,
            guest.latency_percentile,
            guest.latency_target_ms,
        )

    def judges(self, guest: Guest) -> bool:
        """Whether reports of it as it is now are judged as before; compared as it is, since that is
        done for all servers in every tick."""
        return (
            self.project_id == guest.project_id
            and self.is_critical == guest.is_latency_critical
            and self.percentile == guest.latency_percentile
        )


@dataclass(frozen=True, slots=True)
class Account:
    """What came of one server."""

    by: Judged
    last: Reported | None = None
    measured_at_ms: int = 0
    """Of the last report, as it says."""
    newer_than_ms: int = 0
    """The next one must be measured after this: at most AHEAD_S after that one was taken. A clock
    that was ahead once must not lock out what is measured by one that is right."""
    taken_at_s: float = float("-inf")
    used: int = 0
    ignored: Mapping[Ignored, int] = field(default_factory=Counter)


class Came(NamedTuple):
    """What came of servers on this host since each of them is here."""

    servers: int
    used: int
    ignored: Mapping[str, int]
    """By reason."""

    def plus(self, other: "Came") -> "Came":
        ignored = self.ignored
        if other.ignored:
            ignored = Counter(self.ignored) + Counter(other.ignored)
        return Came(self.servers + other.servers, self.used + other.used, ignored)


NOTHING_CAME = Came(0, 0, {})


class KnownReports(NamedTuple):
    """For operators and tenants."""

    last: Mapping[str, Reported]
    """By UUID, of the servers that are here."""
    by_server: Mapping[str, Came]
    """Of those of which anything came."""
    by_project: Mapping[str, Came]
    """Of those of which anything came."""


NOTHING_REPORTED = KnownReports({}, {}, {})


class LatencyReports:
    def __init__(
        self,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`clock`: seconds since 1970. `monotonic`: the clock of the ticks."""
        self._clock = clock
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._accounts: dict[str, Account] = {}
        """Of the servers that are here, and of no other: nobody fills it by naming more."""
        self._measured: frozenset[str] = frozenset()
        self._refusals = MessageFilter()

    def take(self, text: object) -> Ignored | None:
        """A `wire.LATENCY` message; None: it is used. Raises wire.BadMessage."""
        message = read_latency(text)
        with self._lock:
            account = self._accounts.get(message.server)
            ignored = Ignored.NOT_HERE if account is None else self._fault(account, message)
            if account is not None:
                changed = (
                    self._used(account, message) if ignored is None else _not(account, ignored)
                )
                self._accounts[message.server] = changed
        if ignored is not None:
            why = ValueError(f"{message.server} of project {message.project_id}: {ignored}")
            self._refusals.note(ignored, "latency reports", why)
        return ignored

    def measures(self, servers: frozenset[str]) -> None:
        """Of these the operator's own sources are believed, and no application."""
        with self._lock:
            self._measured = servers

    def asked_of(self, server: str) -> Asked | None:
        """Of a latency-critical server that is here; None: it is none, or is not here."""
        with self._lock:
            account = self._accounts.get(server)
        if account is None or not account.by.is_critical:
            return None
        return Asked(account.by.percentile, account.by.target_ms)

    def offer(self, server: str, latency_ms: float, load: float | None) -> bool:
        """What the operator's source measured just now; whether it can be a latency."""
        is_load = load is None or _is_within(load, 0.0, wire.MOST_LOAD)
        if not is_load or not _is_within(latency_ms, wire.LEAST_LATENCY_MS, wire.MOST_LATENCY_MS):
            return False
        now_s = self._monotonic()
        with self._lock:
            account = self._accounts.get(server)
            if account is not None and account.by.is_critical:
                last = Reported(latency_ms, load, now_s)
                self._accounts[server] = replace(account, last=last, used=account.used + 1)
        return True

    def _fault(self, account: Account, message: LatencyMessage) -> Ignored | None:
        by = account.by
        faults = {
            Ignored.FOREIGN: message.project_id != by.project_id,
            Ignored.NOT_CRITICAL: not by.is_critical,
            Ignored.MEASURED: message.server in self._measured,
            Ignored.PERCENTILE: message.percentile not in (None, by.percentile),
            Ignored.LATE: self._age_s(message) > LATE_S,
            Ignored.REPEATED: message.measured_at_ms == account.measured_at_ms
            or message.measured_at_ms <= account.newer_than_ms,
            Ignored.TOO_SOON: self._monotonic() - account.taken_at_s < LEAST_INTERVAL_S,
        }
        return next((fault for fault, is_so in faults.items() if is_so), None)

    def _used(self, account: Account, message: LatencyMessage) -> Account:
        now_s = self._monotonic()
        measured_s = now_s - self._age_s(message)
        most_ms = round((self._clock() + AHEAD_S) * 1000)
        return replace(
            account,
            last=Reported(message.latency_ms, message.load, measured_s),
            measured_at_ms=message.measured_at_ms,
            newer_than_ms=min(message.measured_at_ms, most_ms),
            taken_at_s=now_s,
            used=account.used + 1,
        )

    def _age_s(self, message: LatencyMessage) -> float:
        return message.age_s(round(self._clock() * 1000))

    def of(self, guests: Iterable[Guest], now_s: float) -> Mapping[str, LatencyReport]:
        """By UUID the last report of each of these, who are all that are here from now on. What was
        reported of a server before it left is forgotten, also if it comes back."""
        with self._lock:
            known = self._accounts
            self._accounts = {guest.uuid: _same(known.get(guest.uuid), guest) for guest in guests}
            found = [(uuid, account.last) for uuid, account in self._accounts.items()]
        return {
            uuid: LatencyReport(last.latency_ms, last.load, max(0.0, now_s - last.measured_s))
            for uuid, last in found
            if last is not None
        }

    def known(self) -> KnownReports:
        with self._lock:
            heard = [(uuid, one) for uuid, one in self._accounts.items() if one.used or one.ignored]
        last = {uuid: one.last for uuid, one in heard if one.last is not None}
        by_server = {uuid: _came(one) for uuid, one in heard}
        by_project: dict[str, Came] = {}
        for uuid, one in heard:
            so_far, came = by_project.get(one.by.project_id), by_server[uuid]
            by_project[one.by.project_id] = so_far.plus(came) if so_far else came
        return KnownReports(last, by_server, by_project)


def _came(account: Account) -> Came:
    return Came(1, account.used, {why.value: n for why, n in account.ignored.items()})


def _is_within(value: object, least: float, most: float) -> bool:
    """A driver of another package may return anything."""
    return isinstance(value, int | float) and least <= value <= most


def _not(account: Account, why: Ignored) -> Account:
    return replace(account, ignored=Counter(account.ignored) + Counter([why]))


def _same(account: Account | None, guest: Guest) -> Account:
    """A report at another percentile, or of another project's server, says nothing."""
    if account is None or not account.by.judges(guest):
        return Account(Judged.of(guest))
    if account.by.target_ms == guest.latency_target_ms:
        return account
    return replace(account, by=Judged.of(guest))
