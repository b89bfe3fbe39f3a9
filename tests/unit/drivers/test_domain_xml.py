# SPDX-License-Identifier: Apache-2.0
"""What a domain's XML means: who the guest is, its bound, and why it is left alone."""

import pytest

from nova_vp.core.types.guest import Isolation, Unmanaged
from nova_vp.core.types.knob import (
    NO_CPU_WEIGHT,
    NO_EMULATOR_WEIGHT,
    NO_MEMORY_SIZE,
    NO_QUOTA,
    Applied,
    CpuWeight,
    EmulatorWeight,
    Held,
    Knob,
    LlcShare,
    MembwShare,
    MemorySize,
    Quota,
    WeightUnit,
)
from nova_vp.cpuset import format_cpus
from nova_vp.flavor_specs import FlavorSpec
from tests.domain_xml import PROJECT_ID, a_domain, nova_metadata
from vp_agent.drivers.domain_xml import parse_description
from vp_agent.drivers.journal_entry import NEVER, UNREADABLE, format_entry

SHARES = WeightUnit.SHARES
HOST_CPUS = frozenset(range(8))
BOUND = frozenset(range(4))
NOVAS = Quota(20_000, 25_000)
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


BALLOON = '<memballoon model="virtio"/>'


def with_balloon(**about):
    text = a_domain(uuid=UUID, **about).replace('<memballoon model="none"/>', BALLOON)
    size = "<currentMemory unit='KiB'>12288</currentMemory>"
    return parse_description(text.replace("<vcpu ", f"{size}<vcpu "), HOST_CPUS)


def test_the_size_of_memory_is_what_the_balloon_leaves():
    about = with_balloon()
    assert (about.has_balloon, about.current_memory_kib, about.balloon_obstacle) == (
        True,
        12288,
        "",
    )


@pytest.mark.parametrize(
    ("body", "devices", "why"),
    [
        (HUGEPAGES, "", "huge pages"),
        ("<memoryBacking><locked/></memoryBacking>", "", "locked"),
        ("", "<hostdev type='pci'/>", "VFIO"),
    ],
)
def test_what_pins_memory_keeps_a_balloon_from_giving_it_back(body, devices, why):
    assert why in with_balloon(body=body, devices=devices).balloon_obstacle


def test_without_a_balloon_the_size_of_memory_cannot_be_changed():
    about = describe()
    assert not about.has_balloon
    assert "mem_stats_period_seconds" in about.balloon_obstacle


GIVEN = {
    "placement": "0-3",
    "cpu-cap": "-1 100000",
    "cpu-weight": "100 weight",
    "memory": "0:1.0",
    "llc": "1.0",
    "membw": "1.0",
    "memory-size": "16384",
    "emulator-weight": "100 weight",
}
"""By knob: an original that can be understood."""


def held(**attributes):
    values = {
        "knob": "placement",
        "value": "1",
        "original": GIVEN.get(attributes.get("knob", "placement"), "0-3"),
        "controller": "mitigation",
        "action": "m-1",
        **attributes,
    }
    listed = " ".join(f'{k}="{v}"' for k, v in values.items() if v is not None)
    return f"<vp:held {listed}/>"


def entry(*helds, epoch="5"):
    listed = "" if epoch is None else f' epoch="{epoch}"'
    return f'<vp:applied xmlns:vp="urn:nova-vp:1"{listed}>{"".join(helds)}</vp:applied>'


def test_a_servers_names_come_from_novas_metadata():
    about = describe(metadata=nova_metadata("db & cache", "m1.big", {"vp:isolation": "strict"}))
    assert (about.uuid, about.name, about.flavor) == (UUID, "db & cache", "m1.big")
    assert about.project_id == PROJECT_ID
    assert about.spec == FlavorSpec(Isolation.STRICT, cap_floor_ratio=0.5)
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
    ("specs", "floor"),
    [
        ({}, None),
        ({"hw:foo": "bar"}, None),
        ({"vp:priority": "2"}, 0.5),
        ({"vp:cpu_floor": "80"}, 0.8),
        ({"vp:cpu_floor": "80", "vp:manage": "no"}, None),
        ({"vp:cpu_floor": "80", "vp:isolation": "hard"}, None),
    ],
)
def test_only_a_valid_flavor_of_ours_permits_caps(specs, floor):
    about = describe(metadata=nova_metadata(extra_specs=specs))
    assert about.spec.cap_floor_ratio == floor


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


@pytest.mark.parametrize(("pinned", "is_ours"), [("1", True), ("0-2", True), ("2", False)])
def test_pins_that_our_journal_explains_are_ours(pinned, is_ours):
    """By what is held, or what stood before it."""
    body = NEUTRAL.replace("0-3", pinned)
    about = describe(body=body, metadata=nova_metadata() + entry(held(original="0-2")))
    assert (about.obstacle is None) is is_ours
    original = (frozenset({0, 1, 2}),)
    expected = Held(Knob.PLACEMENT, (frozenset({1}),), original, "mitigation", "m-1")
    assert about.applied == Applied(UUID, 5, (expected,))


@pytest.mark.parametrize(
    "text",
    [
        entry(held(value="")),
        entry(held(value="all")),
        entry(held(value="0-99999999999")),
        entry(held(value="3-1")),
        entry(held(value="1;")),
        entry(held(value="1," * 5000)),
        entry(held(value=None)),
        entry(held(original="")),
        entry(held(original=None)),
        entry(held(knob="volume")),
        entry(held(knob="cpu-cap")),
        entry(held(until="soon")),
        entry(held(until="nan")),
        entry(held(until="inf")),
        *(
            entry(held(knob="cpu-cap", value=text))
            for text in ("0 1", "-5 -7", "1 0", "9" * 30 + " 1")
        ),
        *(
            entry(held(knob="cpu-weight", value=text))
            for text in (
                *("", "100", "100 stones", "x weight", "-1 weight", "10001 weight", "1.5 weight"),
                *("1 shares", "262145 shares", "0 shares", "9" * 30 + " shares", "1 2 weight"),
            )
        ),
        *(entry(held(knob="llc", value=text)) for text in ("nan", "0", "2", "", "0.5 0.5")),
        *(entry(held(knob="membw", value=text)) for text in ("nan", "-0.1", "soup")),
        *(
            entry(held(knob="partition", value=text, original="1.0 1.0"))
            for text in ("nan 1", "0 1", "1 2", "1", "1 1 1")
        ),
        entry(held(knob="partition", value="1.0 1.0", original="1.0")),
        *(entry(held(knob="memory", value=text)) for text in ("0:nan", "-1:1", "0:9", "0:inf")),
        *(entry(held(knob="memory-size", value=text)) for text in ("-1", "", "9" * 30, "1.5")),
        *(entry(held(knob="emulator-weight", value=text)) for text in ("", "0 shares", "x weight")),
        entry(held(controller="x" * 300)),
        entry(held(action=None)),
        entry(held(), held(value="")),
        entry(held(), epoch="soon"),
        entry(held(), epoch="-4"),
        entry(held(), epoch=None),
        entry(),
        entry("<evil/>"),
    ],
)
def test_a_malformed_journal_asks_for_what_nova_gave(text):
    specs = {"quota:cpu_quota": "20000", "quota:cpu_period": "25000"}
    applied = describe(metadata=nova_metadata(extra_specs=specs) + text).applied
    placement = Held(Knob.PLACEMENT, (BOUND,), (BOUND,), UNREADABLE, "")
    cap = Held(Knob.CPU_CAP, NOVAS, NOVAS, UNREADABLE, "")
    weight = Held(Knob.CPU_WEIGHT, NO_CPU_WEIGHT, NO_CPU_WEIGHT, UNREADABLE, "")
    size = Held(Knob.MEMORY_SIZE, NO_MEMORY_SIZE, NO_MEMORY_SIZE, UNREADABLE, "")
    io = Held(Knob.EMULATOR_WEIGHT, NO_EMULATOR_WEIGHT, NO_EMULATOR_WEIGHT, UNREADABLE, "")
    assert applied == Applied(UUID, NEVER, (placement, cap, weight, size, io))


@pytest.mark.parametrize("knob", GIVEN)
def test_what_is_malformed_above_is_so_by_its_value_alone(knob):
    """Were it its original, no value would be looked at."""
    text = entry(held(knob=knob, value=GIVEN[knob]))
    assert describe(metadata=nova_metadata() + text).applied.epoch == 5


def test_an_entry_of_no_run_is_read_as_it_is():
    """What is left while a stranger's entry goes back, knob by knob."""
    applied = describe(metadata=nova_metadata() + entry(held(), epoch=str(NEVER))).applied
    assert (applied.epoch, len(applied.held)) == (NEVER, 1)
    assert applied.held[0].controller != UNREADABLE


def test_an_original_beyond_the_bound_becomes_the_bound():
    """A migration brought it from a host with more CPUs."""
    applied = describe(metadata=nova_metadata() + entry(held(original="0-63"))).applied
    assert applied.of(Knob.PLACEMENT).original == (BOUND,)
    assert applied.epoch == 5


@pytest.mark.parametrize(
    ("knob", "value", "original"),
    [
        (Knob.PLACEMENT, (frozenset({1}),), (BOUND,)),
        (Knob.PLACEMENT, (frozenset({1}), frozenset({0, 2})), (BOUND,)),
        (Knob.CPU_CAP, Quota(45_000, 100_000), NO_QUOTA),
        (Knob.CPU_WEIGHT, CpuWeight(10_000), CpuWeight(1)),
        (Knob.CPU_WEIGHT, CpuWeight(262_144, SHARES), CpuWeight(2, SHARES)),
        (Knob.CPU_WEIGHT, CpuWeight(50, SHARES), NO_CPU_WEIGHT),
        (Knob.MEMORY, ((0, 0.25), (1, 0.75)), ((0, 1.0),)),
        (Knob.LLC, LlcShare(0.5), LlcShare()),
        (Knob.MEMBW, MembwShare(0.1), MembwShare(0.9)),
        (Knob.MEMORY_SIZE, MemorySize(524_288), MemorySize(1_048_576)),
        (Knob.EMULATOR_WEIGHT, EmulatorWeight(200), EmulatorWeight(100)),
        (Knob.EMULATOR_WEIGHT, EmulatorWeight(128, SHARES), EmulatorWeight(1024, SHARES)),
    ],
)
@pytest.mark.parametrize("until_s", [None, 12345.678])
def test_what_is_journalled_reads_back_as_it_was(knob, value, original, until_s):
    one = Held(knob, value, original, "vp & <co>", "a-1", until_s)
    other = Held(Knob.PLACEMENT, (BOUND,), (BOUND,), "vp", "a-0")
    applied = Applied(UUID, 4, (other, one))
    # As libvirt does it.
    text = format_entry(applied).replace("<held", "<vp:held")
    text = text.replace("<applied", '<vp:applied xmlns:vp="urn:nova-vp:1"')
    text = text.replace("</applied>", "</vp:applied>")
    assert describe(metadata=nova_metadata() + text).applied == applied


def test_the_one_knob_of_an_older_release_is_given_back_as_two():
    text = entry(held(knob="partition", value="0.25 0.5", original="1.0 0.9", until="9.5"))
    applied = describe(metadata=nova_metadata() + text).applied
    assert applied == Applied(
        UUID,
        5,
        (
            Held(Knob.LLC, LlcShare(0.25), LlcShare(), "mitigation", "m-1", 9.5),
            Held(Knob.MEMBW, MembwShare(0.5), MembwShare(0.9), "mitigation", "m-1", 9.5),
        ),
    )


@pytest.mark.parametrize(
    ("tuned", "quota"),
    [
        ("", NO_QUOTA),
        ("<quota>20000</quota><period>25000</period>", NOVAS),
        ("<quota>20000</quota>", Quota(20_000, 100_000)),
        ("<period>25000</period>", Quota(-1, 25_000)),
        ("<quota>-1</quota><period>100000</period>", NO_QUOTA),
        ("<quota>-5</quota>", NO_QUOTA),
    ],
)
def test_the_quota_that_libvirt_was_told(tuned, quota):
    assert describe(body=f"<cputune>{tuned}</cputune>").quota == quota


@pytest.mark.parametrize(
    ("text", "shares"), [("", None), ("0", None), ("lots", None), ("2048", 2048), (" 7 ", 7)]
)
def test_the_shares_that_libvirt_was_told_and_those_of_the_flavor(text, shares):
    told = f"<cputune><shares>{text}</shares></cputune>"
    about = describe(body=told, metadata=nova_metadata(extra_specs={"quota:cpu_shares": text}))
    assert (about.shares, about.flavor_shares) == (shares, shares)
    without = describe()
    assert (without.shares, without.flavor_shares) == (None, None)


@pytest.mark.parametrize(
    ("specs", "quota"),
    [
        ({}, NO_QUOTA),
        ({"quota:cpu_quota": "20000", "quota:cpu_period": "25000"}, NOVAS),
        ({"quota:cpu_quota": "-1"}, NO_QUOTA),
        ({"quota:cpu_quota": "lots"}, NO_QUOTA),
        ({"quota:cpu_quota": "20000", "quota:cpu_period": "-1"}, Quota(20_000, 100_000)),
    ],
)
def test_the_quota_that_the_flavor_asks(specs, quota):
    assert describe(metadata=nova_metadata(extra_specs=specs)).flavor_quota == quota


@pytest.mark.parametrize("text", ["", "<domain", "<domain><vcpu>many</vcpu></domain>", "<domain/>"])
def test_what_is_no_domain_xml_is_told_in_one_way(text):
    with pytest.raises(ValueError):
        parse_description(text, HOST_CPUS)


def test_an_image_that_can_be_none_keeps_nobody_from_hearing_of_the_host():
    root = '<nova:root type="image" uuid="{}"/></nova:instance>'
    for told, image in ((UUID, UUID), ("cirros", ""), ("x" * 300, "")):
        metadata = nova_metadata().replace("</nova:instance>", root.format(told))
        assert describe(metadata=metadata).image == image


def test_a_pin_of_the_emulator_threads():
    assert describe().emulator_pin is None
    pinned = "<cputune><emulatorpin cpuset='2-3'/></cputune>"
    assert describe(body=pinned).emulator_pin == {2, 3}


@pytest.mark.parametrize(
    ("body", "found"),
    [
        ("", {}),
        ("<iothreads>2</iothreads>", {1: None, 2: None}),
        (
            "<iothreads>1</iothreads><iothreadids><iothread id='7'/></iothreadids>"
            "<cputune><iothreadpin iothread='7' cpuset='1'/></cputune>",
            {7: {1}},
        ),
    ],
)
def test_io_threads_and_their_pins(body, found):
    assert describe(body=body).io_threads == found
