# SPDX-License-Identifier: Apache-2.0
"""What controllers are told of outcomes, and keep of it."""

from tests.unit.core.build import COMPUTE, Host, nodes_of
from tests.unit.core.wishful import KNOBS, OTHER, VM, Wishful, cap, enabled


class Counting(Wishful):
    """Keeps of whose actions it was told."""

    def state(self):
        return ()

    def note(self, state, outcome, core, settings):
        return (*state, outcome.action.guest_uuid)


def test_a_controller_remembers_every_outcome_of_its_own_and_none_of_others() -> None:
    first, second = Counting("first", 200), Counting("second", 300)
    host = Host(nodes_of(0, 1), enabled(first, second), knobs=KNOBS)
    for name in ("vm", "other"):
        host.add(name, COMPUTE, cpus={0, 1}, node=0, cap_floor_ratio=0.1)
    host.ticks(2)
    for wanted in (cap(0.5), cap(0.5, OTHER)):
        first.wants(wanted)
        host.tick()
    second.wants(cap(0.4))
    host.tick()
    assert host.state.controllers["first"] == (VM, OTHER, VM), "its first claim ended"
    assert host.state.controllers["second"] == (VM,)
