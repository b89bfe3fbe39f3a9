# SPDX-License-Identifier: Apache-2.0
"""What could be had with foresight: in each sample the most CPU for best-effort work with which the
target is met, by somebody who knows the model, the load and the noise, and changes caps at once."""

import copy
from random import Random

from vp_sim.best_effort.figures import Figures
from vp_sim.best_effort.loads import Load
from vp_sim.best_effort.socket import STEP_S, Socket

CORES_STEP = 0.05


def best_with_foresight(figures: Figures, load: Load, seed: int) -> Socket:
    socket = Socket(figures, Random(f"run-{seed}"))
    for rps in load.rps:
        socket = _best_second(socket, rps)
    return socket


def _best_second(before: Socket, rps: float) -> Socket:
    """The most by bisection: latency rises with the quota. With none, if no quota meets it."""
    most, target_ms = float(before.figures.be_cores), before.figures.target_ms
    found = _after(before, rps, most)
    if found.latency_ms <= target_ms:
        return _with_history(before, found)
    low, high, best = 0.0, most, _after(before, rps, 0.0)
    while high - low > CORES_STEP:
        middle = (low + high) / 2
        tried = _after(before, rps, middle)
        if tried.latency_ms <= target_ms and tried.backlog <= best.backlog:
            low, best = middle, tried
        else:
            high = middle
    return _with_history(before, best)


def _after(before: Socket, rps: float, quota: float) -> Socket:
    """Without the samples of before, which would be copied for each try."""
    socket = copy.copy(before)
    socket.random = copy.copy(before.random)
    socket.samples_ms = []
    socket.quota_cores = quota
    for _ in range(round(1 / STEP_S)):
        socket.advance(rps)
    return socket


def _with_history(before: Socket, after: Socket) -> Socket:
    after.samples_ms = before.samples_ms + after.samples_ms
    return after
