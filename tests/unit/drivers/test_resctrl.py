# SPDX-License-Identifier: Apache-2.0
"""resctrl groups: which ways and percents, whose groups, and trees that are odd."""

import os
import re
import xml.etree.ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_vp.core.types.knob import NO_QUOTA, Knob, LlcShare, MembwShare
from tests.partition_subjects import (
    HALF,
    NOTHING_HELD,
    ResctrlSubject,
    give_back,
    hold,
    seen,
)
from vp_agent.drivers.base import ApplyFailed, GuestGone
from vp_agent.drivers.cache_partition import (
    PartitionedGuests,
    PartitionUnavailable,
    UndoOnly,
    open_partition,
)
from vp_agent.drivers.fake import FakeGuests, FakeHost
from vp_agent.drivers.fake_partition import FakePartitions
from vp_agent.drivers.journal_entry import Given, parse_entry
from vp_agent.drivers.resctrl import create
from vp_agent.drivers.resctrl_groups import Groups, name_of
from vp_agent.drivers.resctrl_schemata import Cache, Unusable, mask_of, parse_features


@pytest.fixture
def subject(tmp_path):
    return ResctrlSubject(tmp_path)


def schemata(subject, uuid):
    text = (subject.tree.root / name_of(uuid) / "schemata").read_text()
    return dict(line.split(":") for line in text.split())


CACHES = [
    # ways, least, shareable, share: mask
    ("fffff", 1, "c0000", 0.5, "3ff"),
    ("fffff", 1, "c0000", 0.3, "3f"),
    ("fffff", 1, "c0000", 0.01, "1"),
    ("fffff", 2, "c0000", 0.01, "3"),
    ("7ff", 2, "600", 0.5, "1f"),
    # Devices fill the low ways: the high end.
    ("fff", 1, "3", 0.5, "fc0"),
    # They may fill any: the low end.
    ("ffff", 0, "ffff", 0.25, "f"),
    ("ffff", 0, "0", 0.01, "1"),
]


@pytest.mark.parametrize(("cbm", "least", "shareable", "share", "mask"), CACHES)
def test_ways_are_contiguous_and_out_of_the_way_of_devices(
    tmp_path, cbm, least, shareable, share, mask
):
    about = {"cbm_mask": cbm, "min_cbm_bits": max(least, 1), "shareable_bits": shareable}
    subject = ResctrlSubject(tmp_path, **about)
    (tmp_path / "info/L3/min_cbm_bits").write_text(f"{least}\n")
    subject.restart_agent()
    uuid = subject.boot()
    hold(subject, uuid, LlcShare(share))
    assert schemata(subject, uuid)["L3"] == f"0={mask};1={mask}"


@given(
    ratio=st.floats(0.001, 1.0),
    ways=st.integers(1, 64),
    least=st.integers(1, 4),
    shareable=st.integers(0, 2**64 - 1),
)
def test_never_more_ways_than_asked_but_for_the_least(ratio, ways, least, shareable):
    cache = Cache(("L3",), (0,), ways, least, shareable)
    bits = f"{mask_of(ratio, cache):b}"
    count = bits.count("1")
    assert "0" not in bits.strip("0")
    assert len(bits) <= ways
    assert count <= max(least, ratio * ways + 1e-6)
    assert count >= min(ways, least)


def test_bandwidth_is_rounded_down_to_what_the_hardware_steps_by(subject):
    uuid = subject.boot()
    for share, percent in ((0.5, 50), (0.39, 30), (0.01, 10), (1.0, 100)):
        hold(subject, uuid, LlcShare(0.5), MembwShare(share))
        assert schemata(subject, uuid)["MB"] == f"0={percent};1={percent}"


def test_every_llc_gets_the_limit_whatever_its_number(tmp_path):
    subject = ResctrlSubject(tmp_path, domain_ids=(0, 8, 17))
    uuid = subject.boot()
    hold(subject, uuid, *HALF)
    assert schemata(subject, uuid)["L3"] == "0=3ff;8=3ff;17=3ff"


def test_code_and_data_get_the_same_ways(tmp_path):
    subject = ResctrlSubject(tmp_path, resources=("L3CODE", "L3DATA"))
    uuid = subject.boot()
    hold(subject, uuid, *HALF)
    lines = schemata(subject, uuid)
    assert lines["L3CODE"] == lines["L3DATA"] == "0=3ff;1=3ff"


def test_undone_the_tree_is_what_it_was(subject):
    uuid = subject.boot()
    subject.tree.group("libvirt-made", cpus="7")
    before = subject.tree.snapshot()
    hold(subject, uuid, *HALF)
    hold(subject, uuid, LlcShare(0.25), MembwShare())
    give_back(subject, uuid)
    assert subject.tree.snapshot() == before


def test_the_root_and_other_groups_are_never_written(subject):
    uuid, other = subject.boot(), subject.boot()
    subject.tree.group("pqos", *subject.guests[other].tids)
    before = subject.tree.snapshot()
    hold(subject, uuid, *HALF)
    ours = str(subject.tree.root / name_of(uuid))
    root_tasks = str(subject.tree.root / "tasks")
    after = {k: v for k, v in subject.tree.snapshot().items() if not k.startswith(ours)}
    assert after.pop(root_tasks) != before.pop(root_tasks)
    assert after == before


def test_a_guest_in_a_group_of_somebody_else_is_left_there(subject):
    uuid = subject.boot()
    subject.tree.group("qemu-1-instance-vcpus_0-1", *subject.guests[uuid].tids)
    (subject.tree.root / "qemu-1-instance-vcpus_0-1/schemata").write_text("L3:0=f;1=f\nMB:0=100\n")
    before = subject.tree.snapshot()
    assert seen(subject, uuid) == (LlcShare(0.2), MembwShare())
    with pytest.raises(ApplyFailed, match="qemu-1-instance-vcpus_0-1, which is not ours"):
        hold(subject, uuid, *HALF)
    give_back(subject, uuid)
    assert subject.tree.snapshot() == before


def test_a_guest_on_cpus_of_somebody_elses_group_is_left_to_it(subject):
    uuid = subject.boot(cpus=frozenset({4, 5}))
    subject.tree.group("dpdk", cpus="5-7")
    with pytest.raises(ApplyFailed, match="dpdk holds CPUs"):
        hold(subject, uuid, *HALF)
    assert subject.actuator.held() == frozenset()


def test_a_guest_that_somebody_monitors_is_left_to_him(subject):
    uuid = subject.boot()
    monitor = subject.tree.root / "mon_groups/qemu-monitor"
    monitor.mkdir()
    (monitor / "tasks").write_text("".join(f"{tid}\n" for tid in subject.guests[uuid].tids))
    with pytest.raises(ApplyFailed, match=r"watched by .*mon_groups/qemu-monitor"):
        hold(subject, uuid, *HALF)


def test_what_an_older_release_journalled_as_one_knob_is_given_back(subject):
    uuid = subject.boot()
    hold(subject, uuid, *HALF)
    entry = ET.fromstring(
        "<vp:applied xmlns:vp='urn:nova-vp:1' epoch='4'><vp:held knob='partition' value='0.5 0.5' "
        "original='1.0 1.0' controller='vp' action='vp-1'/></vp:applied>"
    )
    for held in parse_entry(entry, uuid, Given(frozenset({0, 1}), NO_QUOTA)).held:
        subject.actuator.restore(uuid, held)
    assert subject.actuator.held() == frozenset()


def test_a_plugged_vcpu_is_seen_and_taken_in(subject):
    uuid = subject.boot()
    hold(subject, uuid, *HALF)
    subject.plug(uuid)
    assert seen(subject, uuid) == NOTHING_HELD
    hold(subject, uuid, *HALF)
    assert {subject.tree.group_of(tid) for tid in subject.guests[uuid].tids} == {name_of(uuid)}


def test_a_change_by_hand_is_read_back(subject):
    uuid = subject.boot()
    hold(subject, uuid, *HALF)
    path = subject.tree.root / name_of(uuid) / "schemata"
    # A sparse mask, on a CPU that takes one, and another LLC left as it was.
    path.write_text("L3:0=f00f1;1=fffff\nMB:0=100;1= 20\n")
    assert seen(subject, uuid) == (LlcShare(9 / 20), MembwShare(0.2))


def test_ids_in_limbo_are_told_and_leave_nothing(subject):
    uuid = subject.boot()
    subject.tree.limbo = 3
    with pytest.raises(ApplyFailed, match="RMID"):
        hold(subject, uuid, *HALF)
    assert subject.actuator.held() == frozenset()


def test_a_refusal_of_the_kernel_is_told_in_its_words(subject):
    uuid = subject.boot()
    (subject.tree.root / "info/L3/min_cbm_bits").write_text("1\n")
    subject.tree._least = 12
    with pytest.raises(ApplyFailed, match="too few 1-bits"):
        hold(subject, uuid, *HALF)
    assert subject.actuator.held() == frozenset()


def test_a_refusal_leaves_an_older_limit_as_it_stood(subject):
    uuid = subject.boot()
    hold(subject, uuid, *HALF)
    subject.tree._least = 8
    with pytest.raises(ApplyFailed):
        hold(subject, uuid, LlcShare(0.1))
    assert seen(subject, uuid) == HALF


def test_a_reused_pid_is_not_taken_for_the_guest(subject):
    uuid = subject.boot()
    pid = subject.guests[uuid].process.pid
    subject.groups.make(name_of(uuid))
    with pytest.raises(ProcessLookupError):
        subject.groups.assign(name_of(uuid), pid, 0)


def test_a_guest_that_is_replaced_in_between_is_gone(subject):
    uuid = subject.boot()
    subject.believed[uuid] = subject.guests[uuid]
    subject.soft_reboot(uuid)
    with pytest.raises(GuestGone):
        hold(subject, uuid, *HALF)
    assert subject.actuator.held() == frozenset()


@pytest.mark.parametrize(
    "name", ["", "..", "info", "nova-vp-", "nova-vp-x", "../nova-vp-1", "nova-vp-../../etc"]
)
def test_the_helper_touches_our_groups_alone(subject, name):
    process = subject.guests[subject.boot()].process
    before = subject.tree.snapshot()
    for change in (
        lambda: subject.groups.make(name),
        lambda: subject.groups.limit(name, "L3:0=1\n"),
        lambda: subject.groups.assign(name, process.pid, process.started),
        lambda: subject.groups.remove(name),
    ):
        with pytest.raises(PermissionError):
            change()
    assert subject.tree.snapshot() == before


def test_where_bandwidth_cannot_be_limited_only_the_cache_is_offered(tmp_path):
    subject = ResctrlSubject(tmp_path, has_bandwidth=False)
    uuid = subject.boot()
    assert subject.actuator.knobs == {Knob.LLC}
    hold(subject, uuid, LlcShare(0.5))
    assert schemata(subject, uuid) == {"L3": "0=3ff;1=3ff"}
    assert seen(subject, uuid) == (LlcShare(0.5), MembwShare())
    with pytest.raises(ApplyFailed, match="cannot limit memory bandwidth"):
        hold(subject, uuid, MembwShare(0.5))
    give_back(subject, uuid, Knob.MEMBW)
    assert seen(subject, uuid) == (LlcShare(0.5), MembwShare())


def test_where_the_cache_cannot_be_divided_only_bandwidth_is_offered(tmp_path):
    subject = ResctrlSubject(tmp_path, resources=())
    uuid = subject.boot()
    assert subject.actuator.knobs == {Knob.MEMBW}
    hold(subject, uuid, MembwShare(0.5))
    assert schemata(subject, uuid) == {"MB": "0=50;1=50"}
    with pytest.raises(ApplyFailed, match="cannot partition its L3"):
        hold(subject, uuid, LlcShare(0.5))
    give_back(subject, uuid, Knob.LLC)
    assert seen(subject, uuid) == (LlcShare(), MembwShare(0.5))


def test_what_an_operator_wrote_for_the_other_one_is_left_as_it_is(subject):
    uuid = subject.boot()
    hold(subject, uuid, *HALF)
    path = subject.tree.root / name_of(uuid) / "schemata"
    path.write_text("L3:0=f00f;1=ff\nMB:0=50;1=50\n")
    hold(subject, uuid, MembwShare(0.2))
    assert schemata(subject, uuid) == {"L3": "0=f00f;1=ff", "MB": "0=20;1=20"}
    give_back(subject, uuid, Knob.MEMBW)
    assert schemata(subject, uuid) == {"L3": "0=f00f;1=ff", "MB": "0=100;1=100"}


@pytest.mark.parametrize(("least", "root"), [("0", "2048"), ("10", "4294967295"), ("0", "64")])
def test_bandwidth_in_absolute_figures_is_not_used(tmp_path, least, root):
    """AMD's steps of 1/8 GB/s, and mba_MBps."""
    ResctrlSubject(tmp_path)
    (tmp_path / "info/MB/min_bandwidth").write_text(f"{least}\n")
    (tmp_path / "schemata").write_text(f"    L3:0=fffff;1=fffff\n    MB:0={root};1={root}\n")
    features = parse_features(Groups(tmp_path).read)
    assert features.bandwidth is None
    assert any("absolute" in why for why in features.lacking.values())


ODD = {
    "info/L3/cbm_mask": ["", "0", "soup", "ff00", "f0f", "f" * 40],
    "info/L3/min_cbm_bits": ["", "soup"],
    "info/L3/shareable_bits": ["soup"],
    "info/L3/num_closids": ["soup"],
    "info/MB/bandwidth_gran": ["soup"],
}


@pytest.mark.parametrize(("path", "text"), [(p, t) for p, ts in ODD.items() for t in ts])
def test_an_odd_tree_is_refused_in_words(tmp_path, path, text):
    ResctrlSubject(tmp_path)
    (tmp_path / path).write_text(text)
    with pytest.raises(Unusable, match=re.escape(f"{path} is ")):
        parse_features(Groups(tmp_path).read)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot partition its L3 cache"),
        ("L2:0=ff\n", "cannot partition its L3 cache"),
        ("soup", "schemata line 'soup'"),
        ("L3:0", "schemata line 'L3:0'"),
        ("L3:x=1", "schemata line 'L3:x=1'"),
    ],
)
def test_odd_schemata_are_refused_in_words(tmp_path, text, words):
    ResctrlSubject(tmp_path)
    (tmp_path / "schemata").write_text(text)
    with pytest.raises(Unusable, match=words):
        parse_features(Groups(tmp_path).read)


@pytest.mark.parametrize("path", ODD)
def test_a_tree_that_lacks_a_file_is_refused_in_words(tmp_path, path):
    ResctrlSubject(tmp_path)
    (tmp_path / path).unlink()
    with pytest.raises(Unusable, match=re.escape(path.rpartition("/")[2])):
        parse_features(Groups(tmp_path).read)


def test_not_mounted_says_how_to(tmp_path):
    with pytest.raises(PartitionUnavailable, match="mount -t resctrl"):
        create(None, Groups(tmp_path))


def test_the_real_files_are_read_and_written_in_one_call(tmp_path):
    """On a plain folder, which has no kernel behind it: a group is an empty folder there."""
    groups = Groups(tmp_path, tids_of=lambda process: (process.pid,))
    name = name_of("00000000-0000-0000-0000-000000000001")
    assert Groups(tmp_path / "unmounted").ours() == frozenset()
    groups.make(name)
    assert groups.ours() == {"00000000-0000-0000-0000-000000000001"}
    (tmp_path / name / "tasks").touch()
    groups.assign(name, 7, 0)
    assert groups.tasks(name) == {7}
    with pytest.raises(OSError, match="schemata"):
        groups.limit(name, "L3:0=1\n")
    os.unlink(tmp_path / name / "tasks")
    groups.remove(name)
    groups.remove(name)
    assert groups.ours() == frozenset()


def test_guests_say_what_holds_them_back_and_empty_groups_go():
    host = FakeHost()
    partitions = FakePartitions(host)
    guests = PartitionedGuests(FakeGuests(host), partitions)
    held, other, ended = host.boot(), host.boot(), host.boot()
    for uuid in (held, ended):
        partitions.apply(uuid, Knob.LLC, LlcShare(0.5))
    partitions.apply(held, Knob.MEMBW, MembwShare(0.2))
    # As libvirt's driver has it: it does not know.
    host.change(held, llc=LlcShare(), membw=MembwShare())
    host.end(ended)
    found = {guest.uuid: (guest.llc, guest.membw) for guest in guests.read()}
    assert found == {held: (LlcShare(0.5), MembwShare(0.2)), other: NOTHING_HELD}
    assert partitions.held() == {held}
    assert guests.topology() == host.topology
    assert guests.stopped() == {ended}
    assert {t.guest_uuid for t in guests.threads()} == {held, other}


def test_here_nothing_divides_a_cache_and_that_is_told():
    opened = open_partition("auto", None)
    assert "resctrl is not mounted" in opened.why_not
    assert opened.actuator.knobs == frozenset()
    assert opened.actuator.held() == frozenset()
    give_back(opened, "00000000-0000-0000-0000-000000000001")
    with pytest.raises(ApplyFailed):
        hold(opened, "00000000-0000-0000-0000-000000000001", *HALF)
    for name, words in (("resctrl", "not mounted"), ("soup", "auto, none or one of resctrl")):
        with pytest.raises(PartitionUnavailable, match=words):
            open_partition(name, None)


def test_told_to_divide_nothing_it_still_undoes_what_an_earlier_agent_held(subject):
    uuid = subject.boot()
    hold(subject, uuid, *HALF)
    subject.actuator = UndoOnly(subject.actuator)
    assert seen(subject, uuid) == HALF
    with pytest.raises(ApplyFailed, match="partitions no cache"):
        hold(subject, uuid, LlcShare(0.25))
    give_back(subject, uuid)
    assert seen(subject, uuid) == NOTHING_HELD
