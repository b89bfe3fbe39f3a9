# SPDX-License-Identifier: Apache-2.0
"""Controllers of the tests' own, for what holds of whatever controllers are installed.

`Wishful` claims what the test tells it to. `Mover` moves who is guilty, in vain or not: the least
that a mitigation is. `Helpless` only says that nothing helps.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from nova_vp.core.controllers.base import Answer, Controller, View
from nova_vp.core.types.claim import Alternative, ClaimGroup, PredictedLoss, Release, Setting
from nova_vp.core.types.detection import Detection
from nova_vp.core.types.knob import Knob, LlcShare, Quota
from nova_vp.core.types.policy import Enabled, Policy
from nova_vp.core.types.reason import Reason, Rejection, Rung
from nova_vp.core.types.topology import LlcDomain
from tests.unit.core.build import COMPUTE, Host, nodes_of, uuid_of

VM = uuid_of("vm")
OTHER = uuid_of("other")
KNOBS = frozenset(Knob)
PLACED = (frozenset({0, 1}),)
ELSEWHERE = (frozenset({2, 3}),)
NO_LOSS = PredictedLoss(0.0, 0.0)


def a_reason(code: str, rank: int, **about: Any) -> Reason:
    told = {"label": f"the test wants {code}", "own_label": "this server was changed", **about}
    return Reason(code, rank, **told)


@dataclass
class Wish:
    """What the test tells a controller to claim, until it says otherwise."""

    groups: tuple[ClaimGroup, ...] = ()
    releases: tuple[Release, ...] = ()
    grants: bool = False
    runs: int = 0


class Wishful(Controller):
    """Claims what its wish says, in every tick."""

    def __init__(self, name: str, rank: int, **flags: bool) -> None:
        self.name = name
        self.reason = a_reason(f"{name}-wishes", rank, **flags)
        self.wish = Wish()

    def run(self, view, state, settings):
        self.wish.runs += 1
        return Answer(state, self.wish.groups, self.wish.releases)

    def grants(self, view, key, claim, settings):
        return self.wish.grants

    def wants(self, *claims: Setting, relaxes: Iterable[Setting] = ()) -> None:
        """One group."""
        self.wish.groups = (self.group(*claims, relaxes=relaxes),) if claims or relaxes else ()

    def group(self, *claims: Setting, relaxes: Iterable[Setting] = ()) -> ClaimGroup:
        domains = (0,) if any(one.knob is Knob.PLACEMENT for one in claims) else ()
        return ClaimGroup(
            controller=self.name,
            guest_uuid=(*claims, *relaxes)[0].guest_uuid,
            settings=claims,
            domain_ids=domains,
            reason=self.reason,
            predicted_loss=PredictedLoss(0.0, 0.0),
            relaxes=tuple(relaxes),
        )


MOVES = a_reason("mover-moves", 400, is_verified=True, is_counted=True, takes_away=True)


class Mover(Controller):
    """Moves the worst suspect of each detection to another LLC domain, or the victim once that was
    in vain. It looks for no room there, and predicts nothing."""

    name = "mover"
    reason = MOVES

    def run(self, view, state, settings):
        waiting = {pending.action.victim_uuid for pending in view.core.pending}
        found = [vp.detection for vp in view.host.vps.values() if vp.detection]
        due = [one for one in found if one.suspects and one.victim_uuid not in waiting]
        return Answer(state, tuple(self._group(view, one) for one in due))

    def _group(self, view: View, detection: Detection) -> ClaimGroup:
        host, victim = view.host, detection.victim_uuid
        here = {domain.id for domain in host.domains_of[victim]}
        there = [domain for domain in host.topology.domains if domain.id not in here]
        for uuid in (*(suspect.guest_uuid for suspect in detection.suspects), victim):
            guest = host.guests.get(uuid)
            is_cleared = view.core.cleared_suspects.get((victim, uuid), 0.0) > view.now_s
            if guest and there and not guest.unmanaged and not is_cleared:
                return self._move(uuid, there[0], detection)
        return nothing_helps(self.name, detection)

    def _move(self, uuid: str, there: LlcDomain, detection: Detection) -> ClaimGroup:
        return ClaimGroup(
            controller=self.name,
            guest_uuid=uuid,
            settings=(Setting(uuid, Knob.PLACEMENT, (there.cpus,)),),
            domain_ids=(there.id,),
            reason=self.reason,
            predicted_loss=NO_LOSS,
            detection=detection,
            rung=Rung.MOVE,
        )


class Helpless(Controller):
    """Has no way to help anybody."""

    name = "helpless"

    def run(self, view, state, settings):
        found = (vp.detection for vp in view.host.vps.values())
        return Answer(state, tuple(nothing_helps(self.name, d) for d in found if d))


def nothing_helps(controller: str, detection: Detection) -> ClaimGroup:
    victim = detection.victim_uuid
    rejected = (Alternative(victim, detection.domain_id, Rejection.NO_FREE_CPU),)
    return ClaimGroup(controller, victim, (), (), MOVES, NO_LOSS, detection, rejected)


NOBODY = Policy()
"""No controller is enabled: what is measured and detected does not depend on any."""


def enabled(*controllers: Controller, **numbers: object) -> Policy:
    """These alone."""
    return Policy(**numbers, controllers=tuple(Enabled(one, one.settings()) for one in controllers))


def cap(ratio: float, uuid: str = VM) -> Setting:
    return Setting(uuid, Knob.CPU_CAP, Quota(round(ratio * 100_000), 100_000))


def llc(ratio: float, uuid: str = VM) -> Setting:
    return Setting(uuid, Knob.LLC, LlcShare(ratio))


def place(cpus=ELSEWHERE, uuid: str = VM) -> Setting:
    return Setting(uuid, Knob.PLACEMENT, cpus)


@dataclass
class World:
    """Two guests on two LLC domains, and the test's controllers, the first with the lowest rank."""

    names: tuple[str, ...] = ("first", "second")
    floor: float | None = 0.1
    flags: Mapping[str, bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        ranks = range(200, 200 + 100 * len(self.names), 100)
        self.by_name = {
            name: Wishful(name, rank, **self.flags)
            for name, rank in zip(self.names, ranks, strict=True)
        }
        self.host = Host(nodes_of(0, 1), enabled(*self.by_name.values()), knobs=KNOBS)
        for name in ("vm", "other"):
            self.host.add(name, COMPUTE, cpus={0, 1}, node=0, cap_floor_ratio=self.floor)
        self.host.ticks(2)

    def __getattr__(self, name: str) -> Wishful:
        return self.by_name[name]

    @property
    def quota(self) -> Quota:
        return self.host.guest("vm").quota

    def reasons(self, ticks: int = 1) -> list[Reason]:
        return [a.reason for d in self.host.ticks(ticks) for a in d.actions]
