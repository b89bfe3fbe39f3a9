# SPDX-License-Identifier: Apache-2.0
"""What rules for one latency-critical server: its latency, silence, or CPI alone.

Nobody starves others for long: silence ends in the loop `cpi`, and a project that has starved
others for too long, whatever ruled, limits them no more. An application at its peak cannot be told
from one that lies by what it reports, but by the CPU that it uses: who lies has to burn it.
"""

from collections.abc import Mapping
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
BUSY_RATIO = 0.5
"""Of the most CPU that it uses: who uses or waits for so much has a reason to be slow."""
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


def spent_per_s(seen: Seen, settings: LatencySettings) -> float:
    """Of its project's budget, while this server starves others."""
    is_busy = seen.busy_ratio is not None and seen.busy_ratio >= BUSY_RATIO
    return min(settings.starve_s / settings.starve_busy_s, 1.0) if is_busy else 1.0


def with_starving(
    state: Watches, starving: Mapping[str, float], now_s: float, settings: LatencySettings
) -> Watches:
    """`starving`: by project whose servers now starve others' best-effort servers, what it spends
    per second."""
    span_s = 0.0 if state.at_s is None else now_s - state.at_s
    found: dict[str, float] = {}
    for project in starving.keys() | state.starved_s.keys():
        change_s = starving.get(project, -REGAIN) * span_s
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
