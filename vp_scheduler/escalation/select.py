# SPDX-License-Identifier: Apache-2.0
"""Whom to move off a host, out of those whose leaving mends what the host could not: PURE.

From values to values, with the numbers that spoke for and against each guest. No database, clock or
Nova here: who was migrated lately, and who Nova says is elsewhere, come in as arguments.

A migration costs its guest performance for as long as its memory is copied, more if it is
sensitive (it arrives with cold caches) and more the higher its priority. The rate at which it
writes its memory decides how long that takes, which is why the noisiest guest is seldom the one.
"""

import enum
import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from nova_vp.db.records import Attempt

COPY_LOSS_RATIO = 0.2
"""Share of its performance that a guest is taken to lose while it is copied."""
COLD_S = 5.0
"""Seconds of its work that a sensitive guest loses on arrival, for each thing it is sensitive
to."""
UNKNOWN_DIRTY_RATIO = 0.5
"""A guest whose dirty rate nobody knows is taken to fill this share of the bandwidth with it."""
MOST_DIRTY_RATIO = 0.9
"""Above this share of the bandwidth the copy does not catch up with the guest in any useful
time."""
LEAST_PRIORITY = 0.1


class Why(enum.Enum):
    """What spoke against a guest."""

    NOT_ON_HOST = "not-on-host"
    """Nova does not confirm that it is there."""
    OBSTACLE = "obstacle"
    HELD = "held"
    RELIEF_TOO_SMALL = "relief-too-small"
    NOT_ENOUGH = "not-enough"
    HURTS_OTHERS = "hurts-others"
    NEVER_COPIED = "never-copied"
    COSTS_TOO_MUCH = "costs-too-much"
    DEARER = "dearer"


@dataclass(frozen=True, slots=True)
class Candidate:
    uuid: str
    name: str
    project_id: str
    role: str
    memory_kib: int
    dirty_kib_per_s: float | None
    sensitivity: tuple[str, ...]
    priority: float
    relief_ratio: float
    others_ratio: float
    obstacle: str


@dataclass(frozen=True, slots=True)
class AcceptanceLimits:
    least_relief_ratio: float
    enough_ratio: float
    good_enough_loss_ratio: float
    payback_s: float
    bandwidth_kib_per_s: float


@dataclass(frozen=True, slots=True)
class Numbers:
    """Performance-seconds: what a guest does in a second when nobody disturbs it is one."""

    copy_s: float
    cost_s: float
    gain_s: float
    relief_ratio: float
    others_ratio: float


@dataclass(frozen=True, slots=True)
class Rejected:
    uuid: str
    name: str
    role: str
    why: Why
    detail: str
    numbers: Numbers


@dataclass(frozen=True, slots=True)
class Choice:
    mover: Candidate | None
    numbers: Numbers | None
    rejected: tuple[Rejected, ...]
    sentence: str
    loss_ratio: float | None

    def as_json(self) -> dict[str, Any]:
        rejected = [{**asdict(one), "why": one.why.value} for one in self.rejected]
        mover = asdict(self.mover) if self.mover else None
        numbers = asdict(self.numbers) if self.numbers else None
        return {
            "mover": mover,
            "numbers": numbers,
            "loss_ratio": self.loss_ratio,
            "rejected": rejected,
        }


def choose(
    loss_ratio: float | None,
    candidates: Iterable[Candidate],
    absent: Mapping[str, str],
    held: Mapping[str, str],
    terms: AcceptanceLimits,
) -> Choice:
    """`loss_ratio`: share of its performance that the victim has lost, where that was measured.
    `absent`: of whom Nova does not confirm that they are on this host, and what it says.
    `held`: who may not be moved now, and why."""
    weighed = [(one, _weigh(one, terms)) for one in candidates]
    rejected, fit = [], []
    for one, numbers in weighed:
        fault = _fault(one, numbers, loss_ratio, absent, held, terms)
        if fault:
            rejected.append(_rejected(one, fault[0], fault[1], numbers))
        else:
            fit.append((one, numbers))
    fit.sort(key=lambda pair: (pair[1].cost_s, -pair[1].gain_s, pair[0].uuid))
    if not fit:
        return Choice(None, None, tuple(rejected), _nobody(rejected), loss_ratio)
    (mover, numbers), others = fit[0], fit[1:]
    for one, its in others:
        detail = f"costs {its.cost_s:.1f}, and {mover.name} costs {numbers.cost_s:.1f}"
        rejected.append(_rejected(one, Why.DEARER, detail, its))
    return Choice(mover, numbers, tuple(rejected), _told(mover, numbers, rejected), loss_ratio)


def refuse(loss_ratio: float | None, why: str) -> Choice:
    """Nobody is weighed."""
    return Choice(None, None, (), f"Refused because of its victim: {why}.", loss_ratio)


def _weigh(one: Candidate, terms: AcceptanceLimits) -> Numbers:
    copy_s = _copy_s(one, terms)
    weight = max(one.priority, LEAST_PRIORITY)
    cost_s = weight * (COPY_LOSS_RATIO * copy_s + COLD_S * len(one.sensitivity))
    gain_s = terms.payback_s * (one.relief_ratio + one.others_ratio)
    return Numbers(copy_s, cost_s, gain_s, one.relief_ratio, one.others_ratio)


def _copy_s(one: Candidate, terms: AcceptanceLimits) -> float:
    """All rounds of copying what was written during the round before, as a geometric series."""
    bandwidth = terms.bandwidth_kib_per_s
    dirty = one.dirty_kib_per_s
    dirty_ratio = UNKNOWN_DIRTY_RATIO if dirty is None else dirty / bandwidth
    if dirty_ratio > MOST_DIRTY_RATIO:
        # Finite, so that it has a JSON form; the fault says what it means.
        dirty_ratio = 0.999
    return one.memory_kib / bandwidth / (1 - dirty_ratio)


def _fault(
    one: Candidate,
    numbers: Numbers,
    loss_ratio: float | None,
    absent: Mapping[str, str],
    held: Mapping[str, str],
    terms: AcceptanceLimits,
) -> tuple[Why, str] | None:
    """The first thing that speaks against it, the plainest first."""
    if one.uuid in absent:
        return Why.NOT_ON_HOST, absent[one.uuid]
    if one.obstacle:
        return Why.OBSTACLE, one.obstacle
    if one.uuid in held:
        return Why.HELD, held[one.uuid]
    if not one.relief_ratio >= terms.least_relief_ratio:
        least = f"at least {terms.least_relief_ratio:.0%} is required"
        return Why.RELIEF_TOO_SMALL, f"the victim would regain {one.relief_ratio:.0%}, {least}"
    if not _is_enough(one, loss_ratio, terms):
        return Why.NOT_ENOUGH, f"the victim would regain {one.relief_ratio:.0%} of {loss_ratio:.0%}"
    if numbers.gain_s <= 0 or one.others_ratio < -one.relief_ratio / 2:
        return Why.HURTS_OTHERS, f"others would lose {-one.others_ratio:.0%}"
    if _is_never_copied(one, terms):
        return Why.NEVER_COPIED, _too_dirty(one, terms)
    if numbers.cost_s > numbers.gain_s:
        costs = f"costs {numbers.cost_s:.1f}, gains {numbers.gain_s:.1f}"
        return Why.COSTS_TOO_MUCH, f"{costs} in {terms.payback_s:.0f} s"
    return None


def _is_enough(one: Candidate, loss_ratio: float | None, terms: AcceptanceLimits) -> bool:
    if loss_ratio is None:
        return True
    left_ratio = loss_ratio - one.relief_ratio
    is_most = one.relief_ratio >= terms.enough_ratio * loss_ratio
    return is_most or left_ratio <= terms.good_enough_loss_ratio


def _is_never_copied(one: Candidate, terms: AcceptanceLimits) -> bool:
    dirty = one.dirty_kib_per_s
    return dirty is not None and dirty > MOST_DIRTY_RATIO * terms.bandwidth_kib_per_s


def _too_dirty(one: Candidate, terms: AcceptanceLimits) -> str:
    dirty, bandwidth = one.dirty_kib_per_s or 0.0, terms.bandwidth_kib_per_s
    return f"writes {dirty / 1024:.0f} MiB/s, and {bandwidth / 1024:.0f} MiB/s can be copied"


def _rejected(one: Candidate, why: Why, detail: str, numbers: Numbers) -> Rejected:
    return Rejected(one.uuid, one.name, one.role, why, detail, numbers)


def _told(mover: Candidate, numbers: Numbers, rejected: list[Rejected]) -> str:
    mib = math.ceil(mover.memory_kib / 1024)
    text = (
        f"Move {mover.name} ({mover.role}, {mib} MiB, about {numbers.copy_s:.0f} s to copy): the "
        f"victim regains {numbers.relief_ratio:.0%} of its performance; it costs "
        f"{numbers.cost_s:.1f} and gains {numbers.gain_s:.0f} performance-seconds."
    )
    return " ".join([text, *_against(rejected)])


def _nobody(rejected: list[Rejected]) -> str:
    if not rejected:
        return "No server can be migrated: the host named no candidates."
    return " ".join(["No server can be migrated.", *_against(rejected)])


NAMED = 5
"""Guests that a sentence names; all stand in the choice."""


def _against(rejected: list[Rejected]) -> list[str]:
    """Those first whose role says that they might have been it."""
    roles = {"victim": 0, "aggressor": 1}
    ranked = sorted(rejected, key=lambda one: roles.get(one.role, 2))
    text = [f"Rejected {one.name} ({one.role}): {one.detail}." for one in ranked[:NAMED]]
    return text + ([f"Rejected {len(ranked) - NAMED} others."] if len(ranked) > NAMED else [])


def candidates_of(message: Mapping[str, Any]) -> list[Candidate]:
    return [
        Candidate(
            # As Nova writes it: the budgets per server compare it.
            uuid=one["uuid"].lower(),
            name=one["name"] or one["uuid"],
            project_id=one["project_id"],
            role=one["role"],
            memory_kib=one["memory_kib"],
            dirty_kib_per_s=one["dirty_kib_per_s"],
            sensitivity=tuple(one["sensitivity"]),
            priority=one["priority"],
            relief_ratio=one["relief_ratio"],
            others_ratio=one["others_ratio"],
            obstacle=one["obstacle"],
        )
        for one in message["candidates"]
    ]


def loss_ratio_of(message: Mapping[str, Any], candidates: list[Candidate]) -> float | None:
    """As measured; for a lack of CPU what the victim would regain by leaving."""
    measured = message["evidence"].get("measured_loss_ratio")
    if measured is not None:
        return float(measured)
    return next((one.relief_ratio for one in candidates if one.role == "victim"), None)


def complaint_of(message: Mapping[str, Any], candidates: list[Candidate]) -> str:
    victim = message["victim"].lower()
    name = next((one.name for one in candidates if one.uuid == victim), victim)
    loss = loss_ratio_of(message, candidates)
    lost = f" and has lost {loss:.0%}" if loss is not None else ""
    return f"{name} on {message['host']} is degraded ({message['kind']}){lost}."


def held_since(attempt: Attempt) -> str:
    moment = attempt.requested_at or attempt.started_at
    what = attempt.status.value
    return f"was selected for a migration at {moment:%H:%M} UTC ({what}); see escalation_hold_s"
