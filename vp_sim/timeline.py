# SPDX-License-Identifier: Apache-2.0
"""One run, second by second: who ran how fast where, and what a policy changed."""

from dataclasses import dataclass, field
from typing import NamedTuple

from nova_vp.cpuset import format_cpus
from vp_sim.host import SimGuest, SimHost
from vp_sim.policies import Create
from vp_sim.run import Run, World, simulate

UNCAPPED = f"{1.0:.0%} of each vCPU"


class Event(NamedTuple):
    at_s: float
    label: str
    what: str


@dataclass(slots=True)
class Timeline:
    run: Run
    seconds: list[float]
    pace: dict[str, list[float]]
    """By guest: instructions per second, of those it makes alone."""
    events: list[Event]


@dataclass(slots=True)
class _Recorder:
    seconds: list[float] = field(default_factory=list)
    pace: dict[str, list[float]] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    stood: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def __call__(self, host: SimHost) -> None:
        self.seconds.append(host.now_s)
        names = names_of(host)
        for guest in host.guests.values():
            alone = guest.job.rates[guest.job.phase]
            ratio = host.paces[guest.uuid].instructions_per_s / alone
            self.pace.setdefault(names[guest.uuid], []).append(ratio)
            self._compare(host.now_s, names[guest.uuid], guest)

    def _compare(self, now_s: float, name: str, guest: SimGuest) -> None:
        nodes = " + ".join(f"{share:.0%} on node {node}" for node, share in guest.shares)
        moving = guest.move is not None
        stands = (
            f"CPUs {format_cpus(guest.placement)}",
            f"{guest.quota.cores:.0%} of each vCPU",
            "its memory moves" if moving else f"memory {nodes}",
        )
        stood = self.stood.get(name, ("", UNCAPPED, ""))
        for before, what in zip(stood, stands, strict=True):
            if what != before:
                self.events.append(Event(now_s, name, what))
        self.stood[name] = stands


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
    run = simulate(world, create, seed, recorder)
    return Timeline(run, recorder.seconds, recorder.pace, recorder.events)
