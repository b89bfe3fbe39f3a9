# SPDX-License-Identifier: Apache-2.0
"""One run, second by second: who ran how fast where, what a policy changed, and, where it has
reasons to give, why."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random
from typing import NamedTuple

from nova_vp.core.types.decision import Decision
from nova_vp.cpuset import format_cpus
from nova_vp.recording.file_format import Made, Told, told
from vp_sim.host import SimGuest, SimHost
from vp_sim.policies import Create, Policy
from vp_sim.run import Run, World, simulate
from vp_sim.sim_drivers import SimDrivers

UNCAPPED = f"{1.0:.0%} of each vCPU"


class Event(NamedTuple):
    at_s: float
    label: str
    what: str


@dataclass(slots=True)
class Timeline:
    run: Run
    seconds: list[float]
    speed: dict[str, list[float]]
    """By guest: instructions per second, of those it makes alone."""
    events: list[Event]


@dataclass(slots=True)
class _Recorder:
    seconds: list[float] = field(default_factory=list)
    speed: dict[str, list[float]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    stood: dict[str, tuple[str, ...]] = field(default_factory=dict)
    phases: dict[str, int] = field(default_factory=dict)
    """By guest: the phase that the coming second begins in, and that its speed is of."""
    names: dict[str, str] = field(default_factory=dict)
    told: Told = field(default_factory=Told)

    def __call__(self, host: SimHost) -> None:
        self.seconds.append(host.now_s)
        self.names = names_of(host)
        for guest in host.guests.values():
            alone = guest.job.rates[self.phases.get(guest.uuid, 0)]
            self.phases[guest.uuid] = guest.job.phase
            ratio = host.speeds[guest.uuid].instructions_per_s / alone
            self.speed.setdefault(self.names[guest.uuid], []).append(ratio)
            self._compare(host.now_s, self.names[guest.uuid], guest)

    def hear(self, decision: Decision) -> None:
        now = told(decision)
        for uuid, what in _news(self.told, now, self.names):
            self.events.append(Event(decision.at_s, self.names[uuid], what))
        self.told = now

    def _compare(self, now_s: float, name: str, guest: SimGuest) -> None:
        nodes = " + ".join(f"{share:.0%} on node {node}" for node, share in guest.shares)
        moving = guest.move is not None
        stands = (
            f"CPUs {format_cpus(guest.placement)}",
            f"{guest.quota.cores:.0%} of each vCPU",
            "memory is moving" if moving else f"memory {nodes}",
        )
        stood = self.stood.get(name, ("", UNCAPPED, ""))
        for before, what in zip(stood, stands, strict=True):
            if what != before:
                self.events.append(Event(now_s, name, what))
        self.stood[name] = stands


def _news(before: Told, now: Told, names: dict[str, str]) -> Iterator[tuple[str, str]]:
    hurt, was_hurt = dict(now.detections), dict(before.detections)
    yield from (
        (u, f"degraded: {kind.value}") for u, kind in hurt.items() if was_hurt.get(u) != kind
    )
    yield from ((uuid, "no longer degraded") for uuid in was_hurt if uuid not in hurt)
    for made in now.actions:
        yield made.guest_uuid, f"reason: {_why(made, names)}"
    for one in now.escalations:
        if one not in before.escalations:
            yield one[1], "no action on this host helps"


def _why(made: Made, names: dict[str, str]) -> str:
    others = {turned.guest_uuid for turned in made.turned} - {made.guest_uuid}
    return (
        made.reason
        + (f", with {len(others)} more" if others else "")
        + (f", for {names[made.victim_uuid]}" if made.victim_uuid else "")
    )


@dataclass(frozen=True, slots=True)
class _Heard:
    """A policy whose decisions the recorder hears, if it makes any."""

    policy: Policy
    recorder: _Recorder

    def tick(self, now_s: float) -> None:
        self.policy.tick(now_s)
        decision = getattr(self.policy, "decision", None)
        if decision is not None:
            self.recorder.hear(decision)


def names_of(host: SimHost) -> dict[str, str]:
    """Labels, numbered where an application has several guests."""
    seen: dict[str, int] = {}
    names = {}
    for guest in host.guests.values():
        seen[guest.label] = seen.get(guest.label, 0) + 1
        number = seen[guest.label]
        names[guest.uuid] = guest.label if number == 1 else f"{guest.label} ({number})"
    return names


def record(world: World, create: Create, seed: int) -> Timeline:
    recorder = _Recorder()

    def heard(drivers: SimDrivers, random: Random) -> Policy:
        return _Heard(create(drivers, random), recorder)

    run = simulate(world, heard, seed, recorder)
    return Timeline(run, recorder.seconds, recorder.speed, recorder.events)
