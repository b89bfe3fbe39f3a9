# SPDX-License-Identifier: Apache-2.0
"""What status and report say of overlays, islands and calls."""

import time

import pytest

from nova_vp import wire
from nova_vp.core.types.overlay import Verb
from nova_vp.overlay_message import checksum
from tests.unit.overlay_world import MILLS, SHOP, OverlayWorld, open_world
from vp_agent.cli.status import GRANTED, footers
from vp_agent.publish.host_info import HostInfo
from vp_agent.publish.report import report


@pytest.fixture
def world(tmp_path) -> OverlayWorld:
    return open_world(tmp_path)


def told(world) -> dict:
    about = HostInfo(
        host="vp1",
        counters="fake",
        actuator="kernel",
        is_homing=False,
        epoch_offset_s=time.time(),
        overlays=world.control.overlays.told,
    )
    message = report(world.control.last(), about, wire.MessageVersion(1, 1))
    return wire.decode(wire.REPORT_TOPIC, wire.encode(wire.REPORT_TOPIC, message))


def test_a_report_says_which_overlays_the_host_was_told(world):
    overlays = world.control.overlays
    assert told(world)["overlays_told"] == {
        "version": overlays.told.version,
        "checksum": checksum(overlays.by_id.values()),
    }


def test_a_report_says_what_overlays_hold_and_who_is_in_which_island(world):
    world.call(Verb.TRIGGER, world.web, lease_s=1.0)
    world.call(Verb.RELEASE, of=MILLS)
    world.now_s -= 0.9
    world.tick()
    found = told(world)
    by_id = {one["id"]: one for one in found["overlays"]}
    assert by_id[SHOP]["boosted"] == [world.web]
    assert (by_id[SHOP]["granted"], by_id[SHOP]["refused"]) == (1, 0)
    assert by_id[SHOP]["credit_ratio"] < 1.0
    assert (by_id[MILLS]["granted"], by_id[MILLS]["refused"]) == (0, 1)
    assert [(one["kind"], one["cpus"]) for one in found["islands"]] == [
        ("fair", "0-3"),
        ("fair", "4-7"),
    ]


def test_status_tells_islands_overlays_and_calls_by_their_answer(world):
    world.call(Verb.TRIGGER, world.web)
    world.tick()
    found = {**told(world), "calls": {GRANTED: 1, "no-room": 2, "no-credit": 1}}
    found["islands"][0] |= {"cpus": "0-4", "cap_cpus": 3.5, "problem": "its cap is below floors"}
    lines = list(footers(found))
    assert any("CPUs 0-4 (its own: 0-3), together at most 3.5 CPUs" in line for line in lines)
    assert any("its cap is below floors" in line for line in lines)
    assert any(line.startswith(f"overlay {SHOP}: 0 CPUs borrowed, credit") for line in lines)
    assert lines[-1] == "calls of all overlays: granted 1; refused: no-credit 1, no-room 2"


def test_status_tells_cpus_that_islands_borrowed_by_themselves_from_those_of_calls(world):
    low_cpus, high_cpus = (domain.cpus for domain in world.host.topology.domains)
    world.host.change(world.web, placement=low_cpus)
    for other in (world.db, world.mill):
        world.host.change(other, placement=high_cpus)
    world.tick()
    assert world.call(Verb.BORROW, world.web, cpus=1).nack is None
    world.tick()
    found = told(world)
    low, high = found["islands"]
    assert low["borrowed"] == [{"cpu": 4, "lender": high["name"], "overlay_id": SHOP}]
    assert (high["borrowed"], low["nodes"], high["nodes"]) == ([], [0], [1])
    line = "CPUs that islands borrowed: {} by calls of overlays, {} by themselves for the cap"
    assert not any(line[:27] in one for one in footers(found)), "the overlay has it"
    low["borrowed"].append({"cpu": 5, "lender": high["name"], "overlay_id": None})
    assert any(line.format(1, 1) in one for one in footers(found))


def test_an_agent_without_overlays_says_nothing_of_them(tmp_path):
    world = OverlayWorld(tmp_path)
    world.start_agent()
    world.tick()
    assert list(footers(told(world))) == []
