# SPDX-License-Identifier: Apache-2.0
"""`adaptive`: as much CPU for best-effort servers as keeps latency below its target.

Every two seconds it takes the CPU with which latency, as it was learned to answer, would stay below
a ceiling even if the load moved as far as it lately did. Down it goes there at once, up by small
steps. A missed target halves the CPU, whatever was learned.
"""

import math

from nova_vp.core.controllers.latency.declaration import NOTHING_LEARNED, Response, Watch
from nova_vp.core.controllers.latency.response import LEAST_NOISE, Tangent, learned, tangent_of
from nova_vp.core.controllers.latency.seen import Seen
from nova_vp.core.controllers.latency.source_loops import SUB_S, next_look_s

CEILING = 0.95
"""Share of the target that latency is to stay below, if it varies no more than the least noise."""
NOISE_MARGIN = 2.5
"""By so many standard deviations of what it varies more, the ceiling is lower."""
STEP_RATIO = 1 / 16
"""Of all that best-effort servers can use: the most that they get more in one step."""
STEP_RISE = 0.1
"""How much ln(latency) may be expected to rise by one step."""
LEFT_OVER = 0.15
"""Of the same: so much more than they use may be left to them, or they could not use more."""
LEFT_OVER_FADING = 0.98
"""Of what is left over beyond that, at each look at which no cap holds anybody back."""
MOST_JUMP = 0.05
"""Of the maximum load: who moves farther between two looks is answered, not provided for."""
JUMP_FADING = 0.9995
"""Of what was seen of it, at each look."""
CUT = 0.5
RECOVERY_S = 10.0
"""After a missed target, before anything is given again."""
SAME_REPORT_S = 0.3
"""By so much the moment of one report may differ between two ticks."""


def adaptive(watch: Watch, seen: Seen) -> Watch:
    """Only called while latency is reported."""
    report = seen.report
    assert report is not None
    load_ratio = seen.load_ratio
    if load_ratio is None:  # A report without a load says nothing of a change of it.
        load_ratio = watch.load_ratio or 0.0
    reported_at_s = seen.now_s - report.age_s
    if abs(reported_at_s - watch.reported_at_s) > SAME_REPORT_S:
        latency_ratio = report.latency_ms / seen.target_ms
        response = watch.response
        if seen.best_effort_cores is not None:
            response = learned(response, load_ratio, seen.best_effort_cores, latency_ratio)
        worst_ms = max(watch.worst_ms, report.latency_ms)
        watch = watch._replace(response=response, worst_ms=worst_ms, reported_at_s=reported_at_s)
    if seen.now_s < watch.sub_at_s:
        return watch
    watch = _with_jump(watch, load_ratio)
    worst_ms = max(watch.worst_ms, report.latency_ms)
    watch = watch._replace(
        sub_at_s=next_look_s(watch.sub_at_s, SUB_S, seen.now_s),
        worst_ms=0.0,
    )
    return _acted(watch, seen, worst_ms / seen.target_ms, load_ratio)


def _with_jump(watch: Watch, load_ratio: float) -> Watch:
    before = load_ratio if watch.load_ratio is None else watch.load_ratio
    jump = min(abs(load_ratio - before), MOST_JUMP)
    return watch._replace(load_ratio=load_ratio, load_jump=max(watch.load_jump * JUMP_FADING, jump))


def _acted(watch: Watch, seen: Seen, latency_ratio: float, load_ratio: float) -> Watch:
    """Where nobody knows what best-effort servers use, only a missed target is answered."""
    used_cores = watch.cores
    if seen.best_effort_cores is not None:
        used_cores = min(seen.best_effort_cores, watch.cores)
    if latency_ratio >= 1.0:
        until_s = seen.now_s + RECOVERY_S
        return watch._replace(cores=CUT * used_cores, cool_until_s=until_s, left_over_more=0.0)
    if seen.best_effort_cores is None:
        return watch
    answer = math.log(max(latency_ratio, 1e-3))
    tangent = tangent_of(watch.response, load_ratio, used_cores, answer)
    goal = tangent.cores_for(_ceiling(watch.response), load_ratio + watch.load_jump)
    if goal < used_cores:
        return watch._replace(cores=max(goal, 0.0))
    if seen.now_s < watch.cool_until_s:
        return watch
    # What is left over would be used at once when load falls, and says nothing of latency now.
    watch = _with_left_over(watch, seen, seen.best_effort_cores)
    # Far from the present point a core costs no less than before anything was learned: latency
    # bends upwards.
    far = used_cores + (goal - used_cores) * min(tangent.per_core / NOTHING_LEARNED.per_core, 1.0)
    most_cores = seen.best_effort_cores + LEFT_OVER * seen.most_cores
    most_cores = max(most_cores, min(_most_left(watch, seen, seen.best_effort_cores), far))
    return watch._replace(cores=_risen(watch, seen, min(goal, most_cores), tangent))


def _most_left(watch: Watch, seen: Seen, used_cores: float) -> float:
    return used_cores + (LEFT_OVER + watch.left_over_more) * seen.most_cores


def _with_left_over(watch: Watch, seen: Seen, used_cores: float) -> Watch:
    """A cap is that of each vCPU: one that is busy is held back while others use nothing."""
    more = watch.left_over_more
    if not seen.is_throttled:
        return watch._replace(left_over_more=LEFT_OVER_FADING * more)
    if watch.cores + STEP_RATIO * seen.most_cores < _most_left(watch, seen, used_cores):
        return watch
    return watch._replace(left_over_more=min(more + STEP_RATIO, 1.0))


def _ceiling(response: Response) -> float:
    """Of ln(latency / target)."""
    return math.log(CEILING) - NOISE_MARGIN * (response.noise - LEAST_NOISE)


def _risen(watch: Watch, seen: Seen, goal: float, tangent: Tangent) -> float:
    step = min(STEP_RATIO * seen.most_cores, STEP_RISE / tangent.per_core)
    return max(min(goal, watch.cores + step, seen.most_cores), 0.0)
