# SPDX-License-Identifier: Apache-2.0
"""What a controller is, what it sees, and what it answers: all that a new one has to know.

A controller is a class without data. What it remembers is a frozen value that the pipeline keeps
for it, what the operator set is another one. It never learns of other controllers: it sees what
stands, and what may be claimed.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from nova_vp.core.model.holds import is_change_allowed
from nova_vp.core.model.host import Host
from nova_vp.core.model.islands import islands_of, with_loans
from nova_vp.core.model.limits import LIMITS, PLACES, of_controller, size
from nova_vp.core.model.what_if import WhatIfModel
from nova_vp.core.types.action import Outcome
from nova_vp.core.types.asked import Asked
from nova_vp.core.types.claim import (
    Claim,
    ClaimGroup,
    ClaimKey,
    PredictedLoss,
    Release,
    Setting,
)
from nova_vp.core.types.decision import NodeView
from nova_vp.core.types.declaration import Figure, FlavorKey
from nova_vp.core.types.island import Island, IslandView, Loan
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.overlay import Call, CallAnswer, OverlayView
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Mode, Policy
from nova_vp.core.types.reason import Reason
from nova_vp.core.types.service_level import ClassRoom
from nova_vp.core.types.state import CoreState
from nova_vp.core.types.usage import Usage


@dataclass(frozen=True, slots=True)
class NoSettings:
    """Of a controller that has none."""


@dataclass(frozen=True, slots=True)
class NoState:
    """Of a controller that remembers nothing."""


class View:
    """What every controller sees in a tick. Nothing in it may be changed."""

    def __init__(
        self,
        host: Host,
        nodes: tuple[NodeView, ...],
        picture: Picture,
        core: CoreState,
        policy: Policy,
        on_call: bool = False,
    ) -> None:
        self.on_call = on_call
        """It runs between two ticks: nothing was measured since the last one."""
        self.now_s = picture.at_s
        self.host = host
        self.nodes = nodes
        self.picture = picture
        self.core = core
        """Without what controllers remember."""
        self.policy = policy

    @cached_property
    def what_if(self) -> WhatIfModel:
        """Made when it is first asked for: most ticks predict nothing."""
        return WhatIfModel(self.host, self.picture.limits, self.policy)

    @cached_property
    def islands(self) -> tuple[Island, ...]:
        """With the CPUs that each has now."""
        return with_loans(islands_of(self.policy.islands, self.host.topology), self.core.loans)

    def standing(self, name: str) -> Iterator[tuple[ClaimKey, Claim]]:
        """A controller's own claims that stand, with guest and knob."""
        for key, claims in self.core.claims.items():
            own = of_controller(claims, name)
            if own is not None:
                yield key, own

    def may_claim(self, guest_uuid: str, knob: Knob, name: str, rank: int) -> bool:
        """Whether a knob with one owner is nobody's, or of a claim that yields to this rank."""
        claims = self.core.claims
        if not claims or knob in LIMITS:  # Asked for thousands of times where a plan is sought.
            return True
        return all(
            one.controller == name or rank < one.reason.rank
            for owned in (PLACES if knob in PLACES else (knob,))
            for one in claims.get((guest_uuid, owned), ())
        )

    def may_change(self, setting: Setting, name: str, rank: int) -> bool:
        """Whether nothing but a budget keeps a controller from this change of a place now: a plan
        of several steps waits as a whole if one of them may not be made."""
        if not self.may_claim(setting.guest_uuid, setting.knob, name, rank):
            return False
        return is_change_allowed(setting, self.core, name, self.now_s, self.policy)

    def grants(self, setting: Setting) -> bool:
        """Whether all controllers with a tighter limit would raise it to this value; False where
        nobody has one."""
        key = (setting.guest_uuid, setting.knob)
        tighter = [
            one for one in self.core.claims.get(key, ()) if size(one.value) < size(setting.value)
        ]
        return bool(tighter) and all(self._is_granted(key, claim) for claim in tighter)

    def _is_granted(self, key: ClaimKey, claim: Claim) -> bool:
        return any(
            controller.name == claim.controller and controller.grants(self, key, claim, settings)
            for controller, settings in self.policy.controllers
        )


@dataclass(frozen=True, slots=True)
class Answer:
    """What a controller says in a tick in which it ran. A claim of its own that is in none of its
    groups ends; one to a place or to memory ends by its release."""

    state: Any
    groups: tuple[ClaimGroup, ...] = ()
    releases: tuple[Release, ...] = ()
    figures: Mapping[str, Mapping[str, float | str]] = field(default_factory=dict)
    """By guest UUID: what it has to tell of that server, by the names of its figures."""
    usage: Mapping[str, Usage] = field(default_factory=dict)
    """By guest UUID: what it used since the last tick of what this controller sells."""
    answers: tuple[CallAnswer, ...] = ()
    """To all calls of the picture, as far as it is concerned: the pipeline may still refuse those
    that name the `call_ids` of a group."""
    restates: frozenset[ClaimKey] = frozenset()
    """Its claims that stand on as they are, beside those in its groups."""
    class_room: ClassRoom | None = None
    """Of one that serves classes."""
    loans: tuple[Loan, ...] | None = None
    """CPUs that are lent between islands from now on; None: as before."""
    islands: tuple[IslandView, ...] = ()
    overlays: tuple[OverlayView, ...] = ()
    next_end_s: float | None = None
    """When the next of its grants ends, so that it is run then; None: in no tick to come."""


class Controller:
    """Base of all controllers; one object serves every tick and thread."""

    name: ClassVar[str]
    """That of its entry point and of its options, `[controller_<name>]`."""
    summary: ClassVar[str]
    """One sentence for the option that enables it."""
    is_default: ClassVar[bool] = False
    """It runs where the operator does not say which controllers do."""
    needs_counters: ClassVar[bool] = True
    """It does not run in a tick in which no server could be measured, and what it does not restate
    stands on while its server could not. Of others it ends."""
    answers_calls: ClassVar[bool] = False
    """It answers the calls of overlays, also between two ticks, when no other controller runs. What
    it does not restate ends, whether its server could be measured or not."""
    changes_often: ClassVar[bool] = False
    """It changes the same limits of the same servers every few seconds. Their originals are then
    journalled once, and not each change; and of the changes the cluster is told every 10 s."""
    serves_classes: ClassVar[bool] = False
    """It protects latency-critical servers, and gives best-effort ones what they leave."""
    sees_virtual_places: ClassVar[bool] = False
    """It decides where servers run. On a host that only observes it sees new servers where they
    would be placed, so that it has something to propose; the others see where these really run."""
    settings: ClassVar[type] = NoSettings
    """A frozen dataclass, each field an `option`."""
    state: ClassVar[type] = NoState
    """A frozen dataclass, each field with a default, of plain values, enums, tuples and mappings:
    recordings write it down."""
    reasons: ClassVar[tuple[Reason, ...]] = ()
    flavor_keys: ClassVar[tuple[FlavorKey[Any], ...]] = ()
    figures: ClassVar[tuple[Figure, ...]] = ()

    def run(self, view: View, state: Any, settings: Any) -> Answer:
        """What it claims now. The claims that stand are in the view; `state` and `settings` are of
        the kinds that it declares."""
        raise NotImplementedError

    def note(self, state: Any, outcome: Outcome, core: CoreState, settings: Any) -> Any:
        """What became of an action of its own, or of one that raised a limit of its own: the state
        with that in mind. Called once when it is applied or failed, and once when it is judged."""
        return state

    def answered(self, state: Any, answers: tuple[tuple[Call, CallAnswer], ...]) -> Any:
        """What was answered in the end to calls of a picture: the state with that in mind. Of one
        that answers calls."""
        return state

    def kept(self, state: Any) -> Any:
        """What of its state outlives a run of the agent, as a state that the next run begins with;
        None: nothing. Moments of this run mean nothing in the next."""
        return None

    def grants(self, view: View, key: ClaimKey, claim: Claim, settings: Any) -> bool:
        """Whether another controller may raise this limit of its own."""
        return False

    def llc_permit(self, asked: Asked, settings: Any) -> float:
        """LLC misses per ms of wall time that a server of such a flavor books; 0: none."""
        return 0.0

    def places_newcomers(self, mode: Mode, settings: Any) -> bool:
        """Whether it gives servers that arrive a place in that mode of the host."""
        return False


def restated(name: str, key: ClaimKey, claim: Claim) -> ClaimGroup:
    """A limit that stands, claimed as before."""
    guest_uuid, knob = key
    return ClaimGroup(
        controller=name,
        guest_uuid=guest_uuid,
        settings=(Setting(guest_uuid, knob, claim.value),),
        domain_ids=(),
        reason=claim.reason,
        predicted_loss=PredictedLoss(0.0, 0.0),
    )
