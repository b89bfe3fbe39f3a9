# SPDX-License-Identifier: Apache-2.0
"""What the agent says in its log: changes, once each, in lines an operator can grep."""

import logging
from collections.abc import Iterable

from nova_vp.core.types.action import Change, Outcome, Result
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.detection import WAITING, Detection
from nova_vp.core.types.knob import Knob
from vp_agent.format import knob_text

LOG = logging.getLogger(__name__)


class EventLog:
    """Remembers what was said, so that a lasting condition is told when it changes."""

    def __init__(self) -> None:
        self._hurt: dict[str, Detection] = {}
        self._unmanaged: dict[str, str] = {}
        self._hot: frozenset[int] = frozenset()
        self._escalated: frozenset[str] = frozenset()
        self._moving: frozenset[str] = frozenset()
        self._is_away = False

    def log(self, decision: Decision, outcomes: Iterable[Outcome]) -> None:
        if self._is_away:
            LOG.info("libvirt answers again")
            self._is_away = False
        self._tell_detections({d.victim_uuid: d for d in decision.detections})
        self._tell_unmanaged(decision)
        self._tell_hot_nodes(decision)
        self._tell_memory_moves(decision)
        self._tell_escalations(decision)
        self.log_outcomes(outcomes)

    def log_outcomes(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            self._tell_outcome(outcome)

    def unavailable(self, exc: Exception) -> None:
        if not self._is_away:
            LOG.warning("libvirt does not answer, trying again every tick: %s", exc)
        self._is_away = True

    def _tell_detections(self, hurt: dict[str, Detection]) -> None:
        for uuid, detection in hurt.items():
            if uuid not in self._hurt:
                _tell_detection(detection)
        for uuid in self._hurt.keys() - hurt.keys():
            LOG.info("vp=%s no longer hurt", uuid)
        self._hurt = hurt

    def _tell_unmanaged(self, decision: Decision) -> None:
        now = {
            view.guest.uuid: f"{view.guest.unmanaged.value}: {view.guest.unmanaged_detail}"
            for view in decision.vps
            if view.guest.unmanaged
        }
        for uuid, why in now.items():
            if self._unmanaged.get(uuid) != why:
                LOG.info("vp=%s is watched, not touched: %s", uuid, why)
        self._unmanaged = now

    def _tell_hot_nodes(self, decision: Decision) -> None:
        for view in decision.nodes:
            if view.is_hot and view.node not in self._hot:
                LOG.warning(
                    "node=%d hot misses_per_s=%.0f limit_misses_per_s=%s mpki=%.1f",
                    view.node,
                    view.misses_per_s,
                    view.limit_misses_per_s,
                    view.mpki,
                )
            elif not view.is_hot and view.node in self._hot:
                LOG.info("node=%d no longer hot", view.node)
        self._hot = frozenset(view.node for view in decision.nodes if view.is_hot)

    def _tell_memory_moves(self, decision: Decision) -> None:
        """Begin and end; what lies between is in the report."""
        for move in decision.memory_moves:
            if move.is_over:
                level = logging.WARNING if move.problem else logging.INFO
                LOG.log(
                    level,
                    "vp=%s memory move over moved_kib=%d left_kib=%d %s",
                    move.guest_uuid,
                    move.moved_kib,
                    move.left_kib,
                    move.problem,
                )
            elif move.guest_uuid not in self._moving:
                to = knob_text(Knob.MEMORY, move.to)
                LOG.info("vp=%s memory moves to %s", move.guest_uuid, to)
        under_way = (move.guest_uuid for move in decision.memory_moves if not move.is_over)
        self._moving = frozenset(under_way)

    def _tell_escalations(self, decision: Decision) -> None:
        for one in decision.escalations:
            if one.id not in self._escalated:
                LOG.warning(
                    "escalation=%s vp=%s kind=%s: nothing on this host helps; tried %s",
                    one.id,
                    one.victim_uuid,
                    one.kind.value,
                    ",".join(f"{r.rung.value}:{r.rejection.value}" for r in one.rejected) or "-",
                )
        self._escalated = frozenset(one.id for one in decision.escalations)

    def _tell_outcome(self, outcome: Outcome) -> None:
        action = outcome.action
        level = logging.ERROR if outcome.result is Result.FAILED else logging.INFO
        LOG.log(
            level,
            "action=%s vp=%s reason=%s %s victim=%s hurt_ratio=%.3f result=%s %s",
            action.id,
            action.guest_uuid,
            action.reason.code,
            " ".join(_change(change, action.guest_uuid) for change in action.changes),
            action.victim_uuid or "-",
            action.predicted_loss.worst_ratio,
            outcome.result.value,
            outcome.detail,
        )


def _tell_detection(detection: Detection) -> None:
    suspects = ",".join(s.guest_uuid for s in detection.suspects)
    if detection.kind in WAITING:
        LOG.warning(
            "vp=%s hurt kind=%s waiting_ratio=%.2f cpu_cores=%.2f host_cores=%.2f suspects=%s",
            detection.victim_uuid,
            detection.kind.value,
            detection.waiting_ratio,
            detection.now.cpu_cores,
            detection.host_cores,
            suspects,
        )
        return
    LOG.warning(
        "vp=%s hurt kind=%s mf=%.2f->%.2f l2_mpki=%.1f->%.1f suspects=%s",
        detection.victim_uuid,
        detection.kind.value,
        detection.before.memory_factor,
        detection.now.memory_factor,
        detection.before.l2_mpki,
        detection.now.l2_mpki,
        suspects,
    )


def _change(change: Change, main_uuid: str) -> str:
    """`cpu-cap=[none]->[90 % of each vCPU]`, with the server where it is another one."""
    other = "" if change.guest_uuid == main_uuid else f"{change.guest_uuid}:"
    now, to = (knob_text(change.knob, value) for value in (change.now, change.to))
    return f"{other}{change.knob.value}=[{now}]->[{to}]"
