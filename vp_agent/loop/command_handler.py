# SPDX-License-Identifier: Apache-2.0
"""The operator's hand on a running agent: modes, accepted proposals, undo, release; what it shows.

Commands arrive on other threads and are taken up by the next tick; the last decision is kept for
whoever asks. Nothing here decides or touches a guest.
"""

import logging
import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping

from nova_vp.action_results import NO_PROPOSAL
from nova_vp.cli import labels
from nova_vp.core.pipeline.permit import mode_of
from nova_vp.core.pipeline.revert import done, standing
from nova_vp.core.types.action import Action, Outcome
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.overlay import Call, CallAnswer, Nack
from nova_vp.core.types.policy import Mode
from vp_agent.commands import NotAdvising, NotInForce, NotRejectable, UnknownAction
from vp_agent.loop.call_queue import CallQueue
from vp_agent.loop.host_mode import HostMode
from vp_agent.loop.host_overlays import HostOverlays
from vp_agent.loop.latency_reports import LatencyReports
from vp_agent.loop.overrides import ServerOverrides
from vp_agent.loop.picture import Commanded
from vp_agent.loop.state import StateFolder
from vp_agent.loop.told_facts import ToldFacts

LOG = logging.getLogger(__name__)
RELEASE_TIMEOUT_S = 60.0


class CommandHandler:
    """Implements `Commands`."""

    def __init__(
        self,
        state: StateFolder,
        default_mode: Mode | None,
        clock: Callable[[], float] = time.time,
        facts: ToldFacts | None = None,
    ) -> None:
        """`default_mode`: the host's own, if none was ever set here. `clock`: seconds since 1970.
        `facts`: of Nova; None: nobody tells them."""
        self.servers = ServerOverrides(state, clock)
        """The overrides of single servers."""
        self.latency = LatencyReports(clock)
        """What applications report of them."""
        self.mode = HostMode(state, default_mode, facts, clock)
        self.overlays = HostOverlays(state, clock)
        """What this host was told of applications."""
        self.calls = CallQueue()
        """What these ask for."""
        self._lock = threading.Lock()
        self._approved: frozenset[str] = frozenset()
        self._revoked: frozenset[str] = frozenset()
        self._rejected: Mapping[str, str] = {}
        self._decision: Decision | None = None
        self._release_wanted = threading.Event()
        self._release_done = threading.Event()
        self._release_ok = False

    def commanded(self) -> Commanded:
        modes = self.mode.now()
        with self._lock:
            mode = modes.source.mode
            return Commanded(mode, self._approved, self._revoked, self._rejected, modes.levels)

    def set_mode(self, mode: Mode | None) -> None:
        """The host's own; None: it has none any more."""
        with self._lock:
            self.mode.set_own(mode)
            self._approved = frozenset()

    def accept(self, action_id: str) -> None:
        with self._lock:
            proposals = self._proposals()
            proposal = proposals.get(action_id)
            source = self.mode.now().source
            mode = source.mode if proposal is None else self._mode_of(proposal, source.mode)
            if mode is not Mode.ADVISE:
                raise NotAdvising(
                    f"proposals can be accepted in mode advise only, and the mode is {mode.value}; "
                    f"mode of the host: {source.mode.value} ("
                    f"{labels.mode_source(source.level.value, source.name)}); set it with "
                    "`openstack vp mode set advise --host HOST` or `vp-agent mode advise`"
                )
            if proposal is None:
                raise _no_proposal(action_id, proposals)
            self._approved |= {action_id}

    def reject(self, action_id: str, by: str, why: str) -> None:
        with self._lock:
            proposals = self._proposals()
            if action_id not in proposals:
                raise _no_proposal(action_id, proposals)
            if not proposals[action_id].claims:
                raise NotRejectable(
                    f"{action_id} gives back what was changed before, so it cannot be rejected; "
                    "it is proposed as long as that stands"
                )
            told = f"rejected by {by}: {why}" if why else f"rejected by {by}"
            self._rejected = {**self._rejected, action_id: told}
            self._approved -= {action_id}

    def _proposals(self) -> Mapping[str, Action]:
        return {one.id: one for one in self._decision.proposals} if self._decision else {}

    def _mode_of(self, proposal: Action, host: Mode) -> Mode:
        """That of the host, unless another one holds for one of the servers."""
        views = self._decision.vps if self._decision else ()
        own = {view.guest.uuid: view.guest.mode for view in views if view.guest.mode}
        return mode_of(proposal, host, own)

    def undo(self, action_id: str) -> None:
        with self._lock:
            decision = self._decision
            known = _done(decision) if decision else {}
            standing_ids = [i for i, one in known.items() if decision and _stands(one, decision)]
            listed = "actions that can be reverted: " + (", ".join(standing_ids) or "none")
            if decision and action_id in {proposal.id for proposal in decision.proposals}:
                raise NotInForce(
                    f"{action_id} is only proposed, so there is nothing to revert; {listed}"
                )
            if action_id not in known:
                raise UnknownAction(
                    f"there is no recent action {action_id!r} on this host; {listed}"
                )
            if action_id not in standing_ids:
                result = known[action_id].result.value
                raise NotInForce(f"{action_id} ({result}): nothing remains to revert; {listed}")
            self._revoked |= {action_id}

    def take_overrides(self, text: object) -> int | None:
        return self.servers.take(text)

    def take_modes(self, text: object) -> None:
        with self._lock:
            self.mode.take(text)
            self._approved = frozenset()

    def take_latency(self, text: object) -> None:
        self.latency.take(text)

    def take_overlays(self, text: object) -> int | None:
        return self.overlays.take(text)

    def call_overlay(self, call: Call, project_id: str | None) -> CallAnswer:
        """Blocks until it is answered. `project_id`: of whoever calls; None: an operator does."""
        overlay = self.overlays.by_id.get(call.overlay_id)
        if overlay is None or project_id not in (None, overlay.project_id):
            detail = "this host was told of no such overlay; see `openstack vp overlay list`"
            return self.calls.refuse(call, Nack.UNKNOWN_OVERLAY, detail)
        return self.calls.ask(call)

    def show(
        self,
        decision: Decision,
        revoked: frozenset[str] = frozenset(),
        rejected: Collection[str] = (),
    ) -> None:
        """Keep the decision for those who ask; forget approvals whose proposal is gone, and what it
        has `revoked` and `rejected`."""
        with self._lock:
            self._decision = decision
            self._approved &= {action.id for action in decision.proposals}
            self._revoked -= revoked
            left = self._rejected.keys() - set(rejected)
            self._rejected = {action_id: self._rejected[action_id] for action_id in left}

    def last(self) -> Decision | None:
        with self._lock:
            return self._decision

    def release(self) -> bool:
        """Switch to observe and give every guest back. Blocks until the tick has done it."""
        try:
            self.set_mode(Mode.OBSERVE)
        except OSError as exc:
            LOG.error("mode observe cannot be saved and is lost at the next start: %s", exc)
            with self._lock:
                self.mode.force_own(Mode.OBSERVE)
                self._approved = frozenset()
        self._release_done.clear()
        self._release_wanted.set()
        return self._release_done.wait(RELEASE_TIMEOUT_S) and self._release_ok

    def release_requested(self) -> bool:
        return self._release_wanted.is_set()

    def released(self, is_complete: bool) -> None:
        self._release_ok = is_complete
        self._release_wanted.clear()
        self._release_done.set()


def _no_proposal(action_id: str, proposals: Iterable[str]) -> UnknownAction:
    listed = ", ".join(proposals) or "none"
    return UnknownAction(f"{NO_PROPOSAL} {action_id!r}; current proposals: {listed}")


def _done(decision: Decision) -> Mapping[str, Outcome]:
    return done(outcome for view in decision.vps for outcome in view.history)


def _stands(outcome: Outcome, decision: Decision) -> bool:
    guests = {view.guest.uuid: view.guest for view in decision.vps}
    moves = {move.guest_uuid: move for move in decision.memory_moves}
    return next(standing(outcome.action, guests, moves), None) is not None
