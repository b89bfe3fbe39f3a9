# SPDX-License-Identifier: Apache-2.0
"""One run: a mix started in one order under one policy, until every job is done once.

All that is random in a run comes from its seed: the start order, the UUIDs, the counters' noise,
the host's calibration and the policy's own draws. Runs of different policies with one seed start
alike.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from vp_sim.apps import App, app_of
from vp_sim.calibration import Calibrator
from vp_sim.contention import Contention
from vp_sim.host import KIB, SimGuest, SimHost, Tally, new_uuid
from vp_sim.jobs import JOB_S, Job, solo_rates
from vp_sim.machine import Machine, machine_of
from vp_sim.mixes import Member, Mix, StartPlace, seats
from vp_sim.parameters import Draw, Drawn, nominal
from vp_sim.perturb import Perturbation, perturb
from vp_sim.placement import Placement, placement_of
from vp_sim.policies import Create
from vp_sim.sim_drivers import sim_drivers_of

TICK_S = 1.0
LONGEST_S = 20 * JOB_S
"""A run that takes longer than this is broken off, its unfinished jobs counted as that long."""

Watch = Callable[[SimHost], None]
"""Called after each second, by who wants a timeline."""


@dataclass(slots=True)
class World:
    """One draw of the figures: what its runs share, solutions included."""

    mix: Mix
    machine: Machine
    contention: Contention
    apps: Mapping[str, App]
    rates: Mapping[str, tuple[float, ...]]
    calibrator: Calibrator
    perturbation: Perturbation | None = None


def world_of(mix: Mix, draw: int | None = None, perturb_seed: int | None = None) -> World:
    """The figures as they stand, or one of the draws from their ranges; then off by a perturbation
    if there is a seed for one."""
    take: Draw = nominal if draw is None else Drawn(Random(f"draw-{draw}"))
    machine = machine_of(mix.shape, mix.hardware, take)
    rows = {member.row.name: member.row for member in mix.members}
    apps = {name: app_of(row, take) for name, row in rows.items()}
    perturbation = None
    if perturb_seed is not None:
        machine, apps, perturbation = perturb(machine, apps, perturb_seed)
    rates = {name: solo_rates(app, machine) for name, app in apps.items()}
    return World(mix, machine, Contention(machine), apps, rates, Calibrator(machine), perturbation)


@dataclass(frozen=True, slots=True)
class Run:
    """What became of it."""

    seconds: Mapping[str, float]
    """By application: how long its job took; alone it takes 300."""
    tally: Tally
    took_s: float
    final: Placement
    """As it ended."""

    @property
    def cpu_used(self) -> float:
        """Mean CPU of the guests in percent of a core."""
        return 100 * self.tally.guest_core_s / self.took_s

    @property
    def management_cpu_used(self) -> float:
        """The same of the host's own threads that move memory."""
        return 100 * self.tally.management_core_s / self.took_s


def start(world: World, seed: int) -> SimHost:
    """The host as this seed's start order fills it, before any policy."""
    random = Random(f"start-{seed}")
    order = world.mix.order(random)
    groups = {m.label: new_uuid(random) if m.row.guests > 1 else "" for m in world.mix.members}
    places = seats(world.mix, order, Random(f"memory-{seed}"))
    guests = [
        _guest(world, member, seat, groups[member.label], random)
        for member, seat in zip(order, places, strict=True)
    ]
    return SimHost(world.machine, world.contention, guests, random)


def _guest(world: World, member: Member, seat: StartPlace, group: str, random: Random) -> SimGuest:
    app = world.apps[member.row.name]
    return SimGuest(
        label=member.label,
        app=app,
        job=Job(app, world.rates[app.name]),
        uuid=new_uuid(random),
        group=group,
        cpus=(seat.cpus,),
        memory_kib={node: share * app.memory_mib * KIB for node, share in seat.memory.items()},
        priority=member.priority,
        controller_keys=member.controller_keys,
    )


def simulate(world: World, create: Create, seed: int, watch: Watch | None = None) -> Run:
    host = start(world, seed)
    drivers = sim_drivers_of(host, world.calibrator.limits(seed))
    policy = create(drivers, Random(f"policy-{seed}"))
    guests = tuple(host.guests.values())
    while host.now_s < LONGEST_S and any(g.job.finished_at_s is None for g in guests):
        host.advance(TICK_S)
        if watch:
            watch(host)
        policy.tick(host.now_s)
    return run_of(host)


def run_of(host: SimHost) -> Run:
    """As far as it came."""
    seconds = _seconds(tuple(host.guests.values()))
    return Run(seconds, host.tally, host.now_s, placement_of(host))


def _seconds(guests: Sequence[SimGuest]) -> dict[str, float]:
    """An application of several VMs is done when the last of them is."""
    seconds: dict[str, float] = {}
    for guest in guests:
        done = guest.job.finished_at_s
        took = LONGEST_S if done is None else done
        seconds[guest.label] = max(seconds.get(guest.label, 0.0), took)
    return seconds
