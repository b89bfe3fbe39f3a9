# SPDX-License-Identifier: Apache-2.0
"""What the experiments come to without coordination: what the figures of the model were fitted to.

None of these runs has an agent.
"""

import statistics
from dataclasses import dataclass
from typing import NamedTuple

from vp_sim.overlay import setups
from vp_sim.overlay.applications import Process
from vp_sim.overlay.figures import Barrier, LastCpu, Parsec, Players, Rubis, RubisOnIxp
from vp_sim.overlay.setups import Setup

SETTLED_S = 60.0
"""Before it nothing is counted."""
PARSEC_RUNS = 5
KNEE_PER_S = 1500.0
"""Printed: more than that is too much for the web server on its own CPUs."""


class Fit(NamedTuple):
    what: str
    printed: float
    modelled: float


def fits(seed: int = 1) -> tuple[Fit, ...]:
    return (
        *_of_rubis(seed),
        *_of_ixp(seed),
        *_of_barrier(seed),
        *_of_players(seed),
        *_of_parsec(seed),
        _web(seed),
    )


@dataclass(frozen=True, slots=True)
class Completed:
    """Of three servers with parallel phases."""

    seconds: float
    """Mean of the servers."""
    cores: float
    """In use, mean until the last one ended."""
    waited_s: float
    most_cores: float
    """In use, mean of two seconds."""


def completed(setup: Setup) -> Completed:
    """Run what computes in parallel until all have ended."""
    used: list[float] = []
    setup.env.process(_metered(setup, used))
    for one in setup.parallel.values():
        one.begin()
    setup.env.run(setup.env.all_of([one.is_over for one in setup.parallel.values()]))
    vms = setup.cpus.vms.values()
    for vm in vms:
        vm.count(setup.env.now)
    ended = [one.ended_at_s for one in setup.parallel.values() if one.ended_at_s is not None]
    return Completed(
        statistics.mean(ended),
        sum(vm.ran_s for vm in vms) / setup.env.now,
        sum(vm.waited_s for vm in vms),
        max(used[2:]),
    )


def _metered(setup: Setup, used: list[float]) -> Process:
    vms, before_s = setup.cpus.vms.values(), 0.0
    while True:
        yield setup.env.timeout(2.0)
        for vm in vms:
            vm.count(setup.env.now)
        now_s = sum(vm.ran_s for vm in vms)
        used.append((now_s - before_s) / 2.0)
        before_s = now_s


def answered_per_s(setup: setups.Setup, from_s: float, to_s: float) -> float:
    assert setup.tiers is not None
    counted = [one for one in setup.tiers.answered if from_s <= one.at_s < to_s]
    return len(counted) / (to_s - from_s)


def _of_rubis(seed: int) -> tuple[Fit, ...]:
    figures = Rubis()
    end_s = SETTLED_S + 4 * figures.phase_s
    full = setups.rubis(figures, seed, figures.sessions, is_capped=True)
    knee = setups.rubis(figures, seed, figures.knee_sessions, is_capped=True)
    for setup in (full, knee):
        setup.run_until(end_s)
    cores = sum(vm.ran_s for vm in full.cpus.vms.values()) / end_s
    return (
        Fit("RUBiS, capped: requests/s", 75.0, answered_per_s(full, SETTLED_S, end_s)),
        Fit("RUBiS, capped, 360 sessions: requests/s", 75.0, answered_per_s(knee, 60.0, end_s)),
        Fit("RUBiS, capped: cores in use", 3.85, cores),
    )


def _of_ixp(seed: int) -> tuple[Fit, ...]:
    setup = setups.rubis_on_ixp(RubisOnIxp(), seed)
    setup.run_until(3 * SETTLED_S)
    guests = sum(vm.ran_s for vm in setup.overlay) / setup.env.now
    return (
        Fit("RUBiS on x86-IXP: requests/s", 68.0, answered_per_s(setup, 60.0, 180.0)),
        Fit("RUBiS on x86-IXP: cores that the guests use", 1.326, guests),
    )


def barrier_ms(setup: Setup) -> dict[str, float]:
    """How long each took, if all begin now."""
    began_s = setup.env.now
    for one in setup.parallel.values():
        one.begin()
    setup.run_until(began_s + SETTLED_S)
    return {
        name: 1000 * ((one.ended_at_s or setup.env.now) - began_s)
        for name, one in setup.parallel.items()
    }


def _of_barrier(seed: int) -> tuple[Fit, ...]:
    found = barrier_ms(setups.barrier(Barrier(), seed))
    printed = {"mpi": 1580.0, "bs-first": 4122.0, "bs-second": 4117.0}
    return tuple(Fit(f"{name}: ms", figure, found[name]) for name, figure in printed.items())


def _of_players(seed: int) -> tuple[Fit, ...]:
    setup = setups.players(Players(), seed)
    setup.run_until(2 * SETTLED_S)
    rates = {name: one.decoded / setup.env.now for name, one in setup.players.items()}
    return (
        Fit("player of a stream: frames/s", 24.0, rates["stream"]),
        Fit("player from disk: frames/s", 80.0, rates["disk"]),
    )


def pools(seed: int) -> tuple[Completed, ...]:
    """All CPUs as one pool without a cap, several times."""
    seeds = range(seed, seed + PARSEC_RUNS)
    return tuple(completed(setups.parsec(Parsec(), one, is_one_pool=True)) for one in seeds)


def _of_parsec(seed: int) -> tuple[Fit, ...]:
    runs = pools(seed)
    minutes = statistics.mean(one.seconds for one in runs) / 60
    cores = statistics.mean(one.cores for one in runs)
    return (
        Fit("PARSEC, one pool: minutes", 11.88, minutes),
        Fit("PARSEC, one pool: cores in use", 9.38, cores),
    )


def web_per_s(seed: int, offered_per_s: float | None = None) -> float:
    """Requests per second of the web server on its own two CPUs. None: as many as later."""
    setup = setups.last_cpu(LastCpu(), seed, offered_per_s)
    setup.run_until(SETTLED_S / 3)
    assert setup.web is not None
    return len(setup.web.served_at_s) / setup.env.now


def _web(seed: int) -> Fit:
    return Fit("web server on two CPUs: requests/s", 1500.0, web_per_s(seed, KNEE_PER_S))
