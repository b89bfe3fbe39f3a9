# SPDX-License-Identifier: Apache-2.0
"""From what an agent's drivers can do, through its real report, to traits."""

from pathlib import Path
from typing import Any

import pytest

from nova_vp import wire
from nova_vp.core.types.knob import Knob
from tests.unit.agent_host import World
from vp_agent.drivers.cache_partition import UndoOnly
from vp_agent.drivers.fake import FakeActuator, FakeGuests, FakeHost, FakeJournal
from vp_agent.drivers.fake_balloon import FakeBalloon
from vp_agent.drivers.fake_emulator import FakeEmulatorWeights
from vp_agent.drivers.memory_fake import FakeMover
from vp_agent.publish.host_info import HostInfo
from vp_agent.publish.report import report
from vp_agent.wiring import LibvirtSide
from vp_scheduler.placement.host_traits import HostTraits, host_traits_of, traits_of


def reported(folder: Path, **facts: Any) -> HostTraits:
    world = World(folder)
    world.start_agent()
    about = {"host": "vp1", "counters": "perf", "actuator": "kernel", "is_homing": False}
    decision = world.tick()
    told = report(
        decision, HostInfo(epoch_offset_s=0.0, **about | facts), wire.MessageVersion(1, 1)
    )
    return host_traits_of(wire.decode(wire.REPORT_TOPIC, wire.encode(wire.REPORT_TOPIC, told)))


@pytest.mark.parametrize("knobs", [(), (Knob.PLACEMENT, Knob.CPU_CAP), tuple(Knob)])
def test_every_knob_arrives(tmp_path: Path, knobs: tuple[Knob, ...]) -> None:
    assert reported(tmp_path, knobs=frozenset(knobs)).knobs == {knob.value for knob in knobs}


def test_names_and_counters_arrive(tmp_path: Path) -> None:
    assert reported(tmp_path, hypervisor="vp1.example").provider == "vp1.example"
    for counters, counts in (("none", set()), ("perf", {"CUSTOM_VP_COUNTERS"})):
        able = reported(tmp_path, counters=counters)
        assert traits_of(able, "observe") == {"CUSTOM_VP_MANAGED", *counts}


def test_what_only_undoes_is_no_knob() -> None:
    host = FakeHost()
    mover = FakeMover(host)
    actuator = FakeActuator(host)
    none = UndoOnly(None)
    drivers = (actuator, none, mover, FakeBalloon(host), FakeEmulatorWeights(host))
    side = LibvirtSide(None, FakeGuests(host), FakeJournal(host), set(), *drivers, dict)
    weights = {Knob.CPU_WEIGHT, Knob.EMULATOR_WEIGHT}
    always = {Knob.PLACEMENT, Knob.CPU_CAP, *weights, Knob.MEMORY_SIZE}
    assert side.knobs == {*always, Knob.MEMORY}
    mover.knobs = frozenset()
    assert side.knobs == always
