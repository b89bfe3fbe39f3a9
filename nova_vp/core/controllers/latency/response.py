# SPDX-License-Identifier: Apache-2.0
"""How the latency of one server answers to its load and to the CPU of best-effort servers.

ln(latency / target) has a value and two slopes at the present point. Each sample corrects them, and
the point moves on along the slopes: a Kalman filter. Where nothing moves, nothing is learned of the
slopes, and nothing forgotten: a loop that keeps latency where it is must not conclude that load and
CPU have no effect.
"""

import math
from typing import NamedTuple

from nova_vp.core.controllers.latency.declaration import NOTHING_LEARNED, Response

LEAST_PER_CORE = 0.02
"""A core is never taken to cost less: ln(latency) per core."""
LEAST_PER_LOAD = 1.0
"""The same for the whole of the maximum load."""
LEAST_NOISE = 0.06
"""Standard deviation of one sample of ln(latency): no application is taken to vary less."""
MOST_NOISE = 0.5
NOISE_FADING = 1 / 30
"""Of what was seen of it, at each sample."""
OUTLIER = 3.0
"""What is farther off, in standard deviations, counts as this: it is a change, not noise."""
DRIFT = 0.02
"""The same of what else changes it from one sample to the next."""
LOAD_DRIFT, CORE_DRIFT = 0.14, 0.014
"""Of the slopes: they are those of a tangent, and latency bends upwards."""
MOST_VARIANCES = (100.0, 9.0, 0.04)
"""Nothing is less sure than before the first sample."""
WORST_RATIO = 1.2
"""Of the target: what lies above is a backlog, or no truth, and says no more than this."""


class Tangent(NamedTuple):
    """ln(latency / target) = base + per_load * load_ratio + per_core * cores."""

    base: float
    per_load: float
    per_core: float

    def cores_for(self, answer: float, load_ratio: float) -> float:
        """With which the answer would be this."""
        return (answer - self.base - self.per_load * load_ratio) / self.per_core


def learned(response: Response, load_ratio: float, cores: float, latency_ratio: float) -> Response:
    """With one sample more; begun anew where that gives no number.

    `latency_ratio`: of the target.
    """
    answer = math.log(min(max(latency_ratio, 1e-3), WORST_RATIO))
    if not response.samples:
        return response._replace(load_ratio=load_ratio, cores=cores, answer=answer, samples=1)
    now = _moved(response, load_ratio, cores)
    now = _corrected(now._replace(noise=_noise(now, answer)), answer)
    return now if all(map(math.isfinite, now)) else NOTHING_LEARNED


def _noise(now: Response, answer: float) -> float:
    off = min(abs(answer - now.answer), OUTLIER * now.noise)
    seen = math.sqrt((1 - NOISE_FADING) * now.noise**2 + NOISE_FADING * off**2)
    return min(max(seen, LEAST_NOISE), MOST_NOISE)


def _moved(was: Response, load_ratio: float, cores: float) -> Response:
    """Along the slopes; everything is less sure than before."""
    load, core = load_ratio - was.load_ratio, cores - was.cores
    most_answer, most_load, most_core = MOST_VARIANCES
    answer_load = was.answer_load + load * was.load_variance + core * was.load_core
    answer_core = was.answer_core + load * was.load_core + core * was.core_variance
    variance = (
        was.answer_variance
        + load * (was.answer_load + answer_load)
        + core * (was.answer_core + answer_core)
    )
    return was._replace(
        load_ratio=load_ratio,
        cores=cores,
        answer=was.answer + was.per_load * load + was.per_core * core,
        answer_variance=min(variance + DRIFT**2, most_answer),
        answer_load=answer_load,
        answer_core=answer_core,
        load_variance=min(was.load_variance + LOAD_DRIFT**2, most_load),
        core_variance=min(was.core_variance + CORE_DRIFT**2, most_core),
    )


def _corrected(now: Response, answer: float) -> Response:
    error, spread = answer - now.answer, now.answer_variance + now.noise**2
    by_answer, by_load, by_core = (
        one / spread for one in (now.answer_variance, now.answer_load, now.answer_core)
    )
    return now._replace(
        answer=now.answer + by_answer * error,
        per_load=max(now.per_load + by_load * error, LEAST_PER_LOAD),
        per_core=max(now.per_core + by_core * error, LEAST_PER_CORE),
        samples=now.samples + 1,
        answer_variance=now.answer_variance * (1 - by_answer),
        answer_load=now.answer_load * (1 - by_answer),
        answer_core=now.answer_core * (1 - by_answer),
        load_variance=now.load_variance - by_load * now.answer_load,
        core_variance=now.core_variance - by_core * now.answer_core,
        load_core=now.load_core - by_load * now.answer_core,
    )


def tangent_of(response: Response, load_ratio: float, cores: float, answer: float) -> Tangent:
    """As high as was learned, or as the present answer if that is higher: one sample that is low by
    chance says nothing."""
    per_load, per_core = response.per_load, response.per_core
    now = answer - per_load * load_ratio - per_core * cores
    if not response.samples:
        return Tangent(now, per_load, per_core)
    known = response.answer - per_load * response.load_ratio - per_core * response.cores
    return Tangent(max(now, known), per_load, per_core)
