# SPDX-License-Identifier: Apache-2.0
"""What a domain's XML means: who the guest is, its bound, and why it is left alone."""

import pytest

from nova_vp.core.model import Isolation, Unmanaged
from tests.domain_xml import PROJECT_ID, a_domain, nova_metadata
from vp_agent.drivers.cpuset import format_cpus
from vp_agent.drivers.description import parse_description
from vp_agent.drivers.journal_entry import NEVER, UNREADABLE

HOST_CPUS = frozenset(range(8))
UUID = "6c5ef3d3-5f34-4a8c-9a37-1bd6ac4bd6d5"

NUMA = """\
<cputune><vcpupin vcpu="0" cpuset="0-3"/><vcpupin vcpu="1" cpuset="0-3"/>
  <emulatorpin cpuset="0-3"/></cputune>
<numatune><memory mode="strict" nodeset="0"/>
  <memnode cellid="0" mode="strict" nodeset="0"/></numatune>
<cpu><numa><cell id="0" cpus="0-1" memory="16384" unit="KiB"/></numa></cpu>"""
DEDICATED = NUMA.replace('vcpu="0" cpuset="0-3"', 'vcpu="0" cpuset="2"').replace(
    'vcpu="1" cpuset="0-3"', 'vcpu="1" cpuset="3"'
)
MIXED = NUMA.replace('vcpu="1" cpuset="0-3"', 'vcpu="1" cpuset="3"')
REALTIME = DEDICATED.replace(
    "</cputune>", '<vcpusched vcpus="1" scheduler="fifo" priority="1"/></cputune>'
)
HUGEPAGES = "<memoryBacking><hugepages><page size='2048' unit='KiB'/></hugepages></memoryBacking>"
HAND_PINNED = "<cputune><vcpupin vcpu='1' cpuset='3'/></cputune>"
NEUTRAL = "<cputune><vcpupin vcpu='0' cpuset='0-3'/><vcpupin vcpu='1' cpuset='0-3'/></cputune>"


def describe(**about):
    about = {"uuid": UUID, "cpuset": "0-3", **about}
    return parse_description(a_domain(**about), HOST_CPUS)


def placed(cpus="1", original="0-3", epoch="5", **attributes):
    values = {"cpus": cpus, "original": original, "epoch": epoch} | {
        "controller": "mitigation",
        "action": "m-1",
        **attributes,
    }
    listed = " ".join(f'{k}="{v}"' for k, v in values.items() if v is not None)
    return f'<vp:placed xmlns:vp="urn:nova-vp:1" {listed}/>'


def test_a_servers_names_come_from_novas_metadata():
    about = describe(metadata=nova_metadata("db & cache", "m1.big", {"vp:isolation": "strict"}))
    assert (about.uuid, about.name, about.flavor) == (UUID, "db & cache", "m1.big")
    assert about.project_id == PROJECT_ID
    assert about.isolation is Isolation.STRICT
    assert (about.vcpus, about.obstacle, about.applied) == (2, None, None)


@pytest.mark.parametrize(
    ("cpuset", "allowed"),
    [
        ("0-3", "0-3"),
        ("0-7,^2", "0-1,3-7"),
        ("6-11", "6-7"),  # 8-11 are offline
        ("8-11", "0-7"),  # all offline: bounds nothing
        (None, "0-7"),
    ],
)
def test_the_bound_is_the_online_part_of_the_cpuset(cpuset, allowed):
    assert format_cpus(describe(cpuset=cpuset).allowed_cpus) == allowed


@pytest.mark.parametrize(
    ("body", "reason", "named"),
    [
        (NUMA, Unmanaged.NUMA_TOPOLOGY, "cells: 1"),
        (DEDICATED, Unmanaged.DEDICATED_CPUS, "vCPU 0 on CPU 2, vCPU 1 on CPU 3"),
        (MIXED, Unmanaged.DEDICATED_CPUS, "vCPU 1 on CPU 3"),
        (REALTIME, Unmanaged.REALTIME, "1 (fifo)"),
        (HUGEPAGES, Unmanaged.HUGEPAGES, "hw:mem_page_size"),
        (HAND_PINNED, Unmanaged.FOREIGN_CHANGE, "CPUs 3"),
    ],
)
def test_guests_that_are_not_ours_to_place_say_why(body, reason, named):
    obstacle = describe(body=body).obstacle
    assert obstacle.reason is reason
    assert named in obstacle.detail


@pytest.mark.parametrize(
    ("specs", "reason", "named"),
    [
        ({"vp:manage": "no"}, Unmanaged.OPTED_OUT, "vp:manage=no"),
        ({"vp:isolation": "hard"}, Unmanaged.INVALID_SPEC, "none, soft, strict"),
        ({"vp:isolatoin": "soft"}, Unmanaged.INVALID_SPEC, "vp:isolation, vp:manage"),
    ],
)
def test_flavor_specs_may_leave_a_guest_alone(specs, reason, named):
    obstacle = describe(metadata=nova_metadata(extra_specs=specs)).obstacle
    assert obstacle.reason is reason
    assert named in obstacle.detail


@pytest.mark.parametrize(
    ("specs", "reason"),
    [
        ({"hw:numa_nodes": "1"}, Unmanaged.NUMA_TOPOLOGY),
        ({"hw:numa_nodes": "1", "hw:cpu_policy": "shared"}, Unmanaged.NUMA_TOPOLOGY),
        ({"hw:numa_nodes": "1", "hw:cpu_policy": "dedicated"}, Unmanaged.DEDICATED_CPUS),
        ({"hw:numa_nodes": "1", "resources:PCPU": "2"}, Unmanaged.DEDICATED_CPUS),
        ({}, Unmanaged.DEDICATED_CPUS),  # the image may have asked for it
    ],
)
def test_on_a_cell_of_one_cpu_the_flavor_tells_numa_from_dedicated(specs, reason):
    metadata = nova_metadata(extra_specs=specs)
    assert describe(body=DEDICATED, metadata=metadata).obstacle.reason is reason


def test_a_guest_that_nova_did_not_make_is_left_alone():
    assert describe(metadata="").obstacle.reason is Unmanaged.NOT_NOVA
    other = '<o:vm xmlns:o="http://ovirt.org/vm/1.0"/>'
    assert describe(metadata=other).obstacle.reason is Unmanaged.NOT_NOVA


def test_pins_equal_to_the_bound_are_neutral():
    assert describe(body=NEUTRAL).obstacle is None


def test_pins_that_our_journal_explains_are_ours():
    body = NEUTRAL.replace("0-3", "1")
    about = describe(body=body, metadata=nova_metadata() + placed(cpus="1"))
    assert about.obstacle is None
    assert about.applied.cpus == {1}
    assert about.applied.original_cpus == {0, 1, 2, 3}
    assert (about.applied.controller, about.applied.action_id) == ("mitigation", "m-1")
    assert about.applied.epoch == 5


@pytest.mark.parametrize(
    "entry",
    [
        placed(cpus=""),
        placed(cpus="all"),
        placed(cpus="0-99999999999"),
        placed(cpus="3-1"),
        placed(original=""),
        placed(original=None),
        placed(epoch="soon"),
        placed(epoch="0"),
        placed(epoch="-4"),
        placed(epoch=None),
        placed(controller="x" * 300),
        placed(action=None),
        '<vp:placed xmlns:vp="urn:nova-vp:1"><evil/></vp:placed>',
    ],
)
def test_a_malformed_journal_asks_for_novas_bound(entry):
    applied = describe(metadata=nova_metadata() + entry).applied
    assert applied.original_cpus == {0, 1, 2, 3}
    assert (applied.epoch, applied.controller) == (NEVER, UNREADABLE)


def test_an_original_beyond_the_bound_becomes_the_bound():
    """A migration brought it from a host with more CPUs."""
    applied = describe(metadata=nova_metadata() + placed(original="0-63")).applied
    assert applied.original_cpus == {0, 1, 2, 3}
    assert applied.epoch == 5
