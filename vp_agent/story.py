# SPDX-License-Identifier: Apache-2.0
"""What the agent says in its log: changes, once each, in lines an operator can grep."""

import logging
from collections.abc import Iterable

from nova_vp.core.model import Decision, Detection, Outcome, Result

LOG = logging.getLogger(__name__)


class Story:
    """Remembers what was said, so that a lasting condition is told when it changes."""

    def __init__(self) -> None:
        self._hurt: dict[str, Detection] = {}
        self._unmanaged: dict[str, str] = {}
        self._is_away = False

    def tell(self, decision: Decision, outcomes: Iterable[Outcome]) -> None:
        if self._is_away:
            LOG.info("libvirt answers again")
            self._is_away = False
        self._tell_detections({d.victim_uuid: d for d in decision.detections})
        self._tell_unmanaged(decision)
        for outcome in outcomes:
            self._tell_outcome(outcome)

    def unavailable(self, exc: Exception) -> None:
        if not self._is_away:
            LOG.warning("libvirt does not answer, trying again every tick: %s", exc)
        self._is_away = True

    def _tell_detections(self, hurt: dict[str, Detection]) -> None:
        for uuid, detection in hurt.items():
            if uuid not in self._hurt:
                LOG.warning(
                    "vp=%s hurt kind=%s mf=%.2f->%.2f l2_mpki=%.1f->%.1f suspects=%s",
                    uuid,
                    detection.kind.value,
                    detection.before.memory_factor,
                    detection.now.memory_factor,
                    detection.before.l2_mpki,
                    detection.now.l2_mpki,
                    ",".join(s.guest_uuid for s in detection.suspects),
                )
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

    def _tell_outcome(self, outcome: Outcome) -> None:
        action = outcome.action
        level = logging.ERROR if outcome.result is Result.FAILED else logging.INFO
        LOG.log(
            level,
            "action=%s vp=%s reason=%s cpus=%s->%s victim=%s hurt_ratio=%.3f result=%s %s",
            action.id,
            action.guest_uuid,
            action.reason.value,
            sorted(action.from_cpus),
            sorted(action.cpus),
            action.victim_uuid or "-",
            action.hurt.worst_ratio,
            outcome.result.value,
            outcome.detail,
        )
