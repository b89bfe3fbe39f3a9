# SPDX-License-Identifier: Apache-2.0
"""All controllers at once on random mixes: changes stay few, floors hold, and all can be undone.

What changed is read from the modelled host, not from what the core says that it did.
"""

from collections import Counter
from dataclasses import replace
from random import Random
from typing import NamedTuple

import pytest

from nova_vp.controllers import with_controllers
from nova_vp.core.controllers.permits.declaration import PermitsSettings
from nova_vp.core.types.knob import Cpus, Knob, Quota, Shares, all_cpus
from nova_vp.core.types.policy import Policy
from vp_sim.host import SimGuest
from vp_sim.mixes import Member, Mix
from vp_sim.policies.core import CorePolicy
from vp_sim.random_mix import any_mix
from vp_sim.run import start, world_of
from vp_sim.sim_drivers import sim_drivers_of

CONTROLLERS = ("vp", "rebalance", "merlin", "permits")
SEEDS, SECONDS, MINUTE_S = range(24), 240, 60
NOTHING_TO_DO = {2, 11, 18}
"""Seeds of mixes in which nobody is degraded and nobody is over a permit."""
MOST_CAPS = MINUTE_S / PermitsSettings().change_s + 1
"""Of one server in a minute: who goes over is capped at once, other changes wait so long."""
MOST_MOVES = MINUTE_S / Policy().move_hold_s
"""Of its vCPUs, or of its memory. What did no good goes back without waiting, and counts here."""
MOST_BACK_S = 600
"""Until all memory is back."""

pytestmark = pytest.mark.needs_controllers(*CONTROLLERS)


class Set(NamedTuple):
    """What one server has."""

    cpus: Cpus
    quota: Quota
    memory: Shares


def a_mix(seed: int) -> Mix:
    """Most of its servers have a permit, from far too little to more than enough; half a floor."""
    mix, random = any_mix(seed), Random(f"flavors-{seed}")
    return replace(mix, members=tuple(_with_keys(member, random) for member in mix.members))


def _with_keys(member: Member, random: Random) -> Member:
    keys = []
    if random.random() < 0.7:
        keys.append(
            ("vp:llc_permit", random.choice(["auto", str(int(10 ** random.uniform(2, 5)))]))
        )
    if random.random() < 0.5:
        keys.append(("vp:cpu_floor", random.choice(["1", "10", "30", "60", "100"])))
    return replace(member, controller_keys=tuple(keys))


def set_of(guest: SimGuest) -> Set:
    return Set(guest.cpus, guest.quota, guest.move.to if guest.move else guest.shares)


class Trial:
    """One mix under all controllers for some minutes."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        world = world_of(a_mix(seed))
        self.host = start(world, seed)
        self.drivers = sim_drivers_of(self.host, world.calibrator.limits(seed))
        self.agent = CorePolicy(self.drivers, with_controllers(Policy(), CONTROLLERS))
        self.original = self.now()
        self.changes: Counter[tuple[str, Knob, int]] = Counter()
        self.floors = {one.uuid: one.cap_floor_ratio for one in self.drivers.guests.read()}
        self.below_floor: list[str] = []
        self.outside: list[str] = []
        for second in range(SECONDS):
            self._tick(second)

    def now(self) -> dict[str, Set]:
        return {uuid: set_of(guest) for uuid, guest in self.host.guests.items()}

    def _tick(self, second: int) -> None:
        self.host.advance(1.0)
        before = self.now()
        self.agent.tick(self.host.now_s)
        for uuid, now in self.now().items():
            for knob, was, given in zip(
                (Knob.PLACEMENT, Knob.CPU_CAP, Knob.MEMORY), before[uuid], now, strict=True
            ):
                self.changes[uuid, knob, second // MINUTE_S] += was != given
            floor = 1.0 if self.floors[uuid] is None else self.floors[uuid]
            if now.quota.cores < floor * self.original[uuid].quota.cores - 1e-3:
                self.below_floor.append(uuid)
            if not all_cpus(now.cpus) <= self.host.machine.topology.cpus:
                self.outside.append(uuid)

    def most(self, knob: Knob) -> int:
        return max(count for (_, one, _), count in self.changes.items() if one is knob)


@pytest.fixture(scope="module", params=SEEDS)
def trial(request):
    return Trial(request.param)


def test_changes_per_knob_and_minute_stay_few(trial):
    assert any(trial.changes.values()) is (trial.seed not in NOTHING_TO_DO)
    assert trial.most(Knob.CPU_CAP) <= MOST_CAPS
    assert trial.most(Knob.PLACEMENT) <= MOST_MOVES
    assert trial.most(Knob.MEMORY) <= MOST_MOVES


def test_floors_and_bounds_hold(trial):
    assert not trial.below_floor
    assert not trial.outside


def test_undo_is_exact(trial):
    """After all others: it ends the run."""
    assert not trial.agent.give_back()
    for _ in range(MOST_BACK_S):
        if not any(guest.move for guest in trial.host.guests.values()):
            break
        trial.host.advance(1.0)
        trial.agent.finish_moves()
    assert trial.now() == trial.original
    assert trial.drivers.journal.read() == {}
