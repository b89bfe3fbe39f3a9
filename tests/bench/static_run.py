# SPDX-License-Identifier: Apache-2.0
"""A run in which nothing is ever changed, in a few steps instead of hundreds.

Between two changes of phase everybody's speed is constant: such a stretch is one step. Steps are
whole ticks, so that the result is that of `simulate` with `Placed`.
"""

from itertools import accumulate
from math import floor, inf

from vp_sim.host import SimGuest, SimHost
from vp_sim.jobs import JOB_S
from vp_sim.placement import Placement, put
from vp_sim.run import LONGEST_S, TICK_S, Run, World, run_of, start

ANY_SEED = 0
"""Nothing of a fixed placement depends on the start order, within the solver's precision."""


def run_static(world: World, placement: Placement) -> Run:
    host = start(world, ANY_SEED)
    put(host, placement)
    guests = tuple(host.guests.values())
    while host.now_s < LONGEST_S and any(g.job.finished_at_s is None for g in guests):
        host.advance(TICK_S)
        ticks = min(_calm_ticks(host), floor((LONGEST_S - host.now_s) / TICK_S))
        if ticks > 0:
            host.advance(ticks * TICK_S)
    return run_of(host)


def _calm_ticks(host: SimHost) -> int:
    """In which nobody's phase changes and the last job is not done; rather one too few."""
    guests = host.guests.values()
    to_phase = min(_left_of_phase_s(guest) / _pace(host, guest) for guest in guests)
    unfinished = [guest for guest in guests if guest.job.finished_at_s is None]
    to_end = max((JOB_S - g.job.at_s) / _pace(host, g) for g in unfinished) if unfinished else 0.0
    return floor(min(to_phase, to_end) / TICK_S) - 1


def _pace(host: SimHost, guest: SimGuest) -> float:
    """Seconds of the job per second."""
    return 1 / guest.job.slowdown_ratio(host.speeds[guest.uuid].instructions_per_s)


def _left_of_phase_s(guest: SimGuest) -> float:
    phases, cycle_s = guest.app.phases, JOB_S / guest.app.cycles
    if len(phases) == 1:
        return inf
    ends = [cycle_s * end for end in accumulate(phase.time_share for phase in phases)]
    return ends[guest.job.phase] - guest.job.at_s % cycle_s
