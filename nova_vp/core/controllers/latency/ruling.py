# SPDX-License-Identifier: Apache-2.0
"""What rules for one latency-critical server: its latency, silence, or CPI alone.

Nobody starves others for long: silence ends in the loop `cpi`, and a project that has starved
others for too long, whatever ruled, limits them no more.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nova_vp.core.controllers.latency.declaration import (
    LatencySettings,
    Loop,
    Ruling,
    Watch,
    Watches,
)
from nova_vp.core.controllers.latency.seen import Seen, is_sound
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.service_level import LatencyReport

REGAIN = 0.25
"""Seconds that a project regains in one."""
RETREAT_RATIO = 1 / 20
RETREAT_EVERY_S = 2.0


def ruling_of(
    guest: Guest,
    seen: Seen,
    report: LatencyReport | None,
    state: Watches,
    settings: LatencySettings,
) -> Ruling:
    """`report`: the last one, however old."""
    if guest.project_id in state.starving:
        return Ruling.STARVED
    if guest.latency_target_ms is None or settings.control_loop is Loop.CPI:
        return Ruling.CPI
    if seen.report is not None:
        return Ruling.LATENCY
    if report is None or not is_sound(report):
        return Ruling.CPI
    silent_s = report.age_s - settings.report_age_s
    if silent_s <= settings.hold_s:
        return Ruling.HOLD
    return Ruling.RETREAT if silent_s <= settings.hold_s + settings.retreat_s else Ruling.CPI


def retreated(watch: Watch, seen: Seen) -> Watch:
    """A twentieth of what they can use less, every two seconds."""
    if seen.now_s < watch.sub_at_s:
        return watch
    before = min(watch.cores, seen.most_cores)
    return watch._replace(
        sub_at_s=seen.now_s + RETREAT_EVERY_S,
        cores=max(before - RETREAT_RATIO * seen.most_cores, 0.0),
    )


def with_starving(
    state: Watches, starved: Iterable[str], now_s: float, settings: LatencySettings
) -> Watches:
    """`starved`: projects whose servers now starve others' best-effort servers."""
    span_s = 0.0 if state.at_s is None else now_s - state.at_s
    now = frozenset(starved)
    found: dict[str, float] = {}
    for project in now | state.starved_s.keys():
        change_s = span_s if project in now else -REGAIN * span_s
        spent_s = min(state.starved_s.get(project, 0.0) + change_s, settings.starve_s)
        if spent_s > 0.0:
            found[project] = spent_s
    return replace(state, starved_s=found, starving=_over(state, found, settings), at_s=now_s)


def _over(
    state: Watches, starved_s: Mapping[str, float], settings: LatencySettings
) -> frozenset[str]:
    return frozenset(
        project
        for project, spent_s in starved_s.items()
        if spent_s >= settings.starve_s
        or (project in state.starving and spent_s > settings.starve_s / 2)
    )
