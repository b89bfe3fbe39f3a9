# SPDX-License-Identifier: Apache-2.0
"""What operators read when counters cannot be had, and what the rest of the host still gets."""

import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.counter_subjects import ALL_EVENTS, LibvirtSubject, PerfSubject, new_threads
from tests.counters_worker import CountersProcess
from tests.cpuinfo import EPYC_MILAN, NEOVERSE_N1, of_x86
from tests.libvirt_host import LibvirtHost
from tests.perf_shim import PerfShim
from tests.waiting import wait_until
from vp_agent.drivers.base import CountersUnavailable
from vp_agent.drivers.counters_fake import VcpuCounts

NO_PMU = ("this host has no PMU", "bare metal", "vPMU", "counters = vpmu")
NOT_PERMITTED = ("CAP_PERFMON", "kernel.perf_event_paranoid")
OUT_OF_FDS = ("out of file descriptors", "LimitNOFILE=")
PLAIN_CAUSES = (NO_PMU[0], NOT_PERMITTED[0], "without perf events", "no events are known")
EVENTS_PER_THREAD = 5


@pytest.fixture
def shim(perf_shim: PerfShim) -> Iterator[PerfShim]:
    perf_shim.clear()
    yield perf_shim
    perf_shim.clear()


@pytest.fixture
def process(shim: PerfShim) -> Iterator[CountersProcess]:
    process = CountersProcess(shim.env)
    yield process
    process.stop()


@pytest.fixture
def perf(shim: PerfShim) -> Iterator[PerfSubject]:
    subject = PerfSubject(shim)
    yield subject
    subject.stop()


@pytest.fixture
def counting_libvirt(
    shim: PerfShim, counting_libvirt_host: LibvirtHost
) -> Iterator[LibvirtSubject]:
    subject = LibvirtSubject(shim, counting_libvirt_host)
    yield subject
    subject.stop()


def assert_tells(text: str, *words: str) -> None:
    assert [word for word in words if word not in text] == [], text


@pytest.mark.parametrize(
    ("source", "code", "words"),
    [
        ("perf", errno.ENOENT, NO_PMU),
        ("perf", errno.EOPNOTSUPP, NO_PMU),
        ("perf", errno.ENODEV, NO_PMU),
        ("perf", errno.EACCES, NOT_PERMITTED),
        ("perf", errno.EPERM, NOT_PERMITTED),
        ("perf", errno.EMFILE, OUT_OF_FDS),
        ("perf", errno.ENOSYS, ("without perf events",)),
        ("perf", errno.EIO, ("Input/output error",)),
        ("libvirt", errno.ENOENT, NO_PMU),
        ("libvirt", errno.EOPNOTSUPP, NO_PMU),
    ],
)
def test_a_source_that_cannot_work_says_why_at_once(
    process: CountersProcess, shim: PerfShim, source: str, code: int, words: tuple[str, ...]
) -> None:
    shim.refuse(open_errno=code)
    with pytest.raises(CountersUnavailable) as refused:
        process.open(source)
    assert_tells(str(refused.value), f"{source}: ", *words)


@pytest.mark.parametrize("source", ["perf", "libvirt"])
def test_a_cpu_without_known_events_is_refused(process: CountersProcess, source: str) -> None:
    with pytest.raises(CountersUnavailable) as refused:
        process.open(source, cpuinfo=of_x86("GenuineIntel", 6, 134, 0))
    assert_tells(str(refused.value), "no events are known", "GenuineIntel family 6 model 134")


def test_events_that_the_pmu_lacks_are_refused(process: CountersProcess) -> None:
    with pytest.raises(CountersUnavailable, match=r"does not count the events of AMD Zen 3.*host"):
        process.open("perf", cpuinfo=EPYC_MILAN)


def test_arm_events_that_count_nothing_are_refused(process: CountersProcess) -> None:
    with pytest.raises(CountersUnavailable, match="LL_CACHE_RD counts nothing"):
        process.open("perf", cpuinfo=NEOVERSE_N1)


def test_libvirt_is_refused_where_generic_events_are_no_llc(process: CountersProcess) -> None:
    with pytest.raises(CountersUnavailable, match="on AMD Zen 3 they mean another cache"):
        process.open("libvirt", cpuinfo=EPYC_MILAN)


@pytest.mark.parametrize("code", [errno.EACCES, errno.EMFILE])
def test_what_we_may_not_open_libvirtd_may(
    process: CountersProcess, shim: PerfShim, code: int
) -> None:
    shim.refuse(open_errno=code)
    assert process.open("libvirt") == []


@pytest.mark.parametrize("code", [errno.ENOENT, errno.EOPNOTSUPP, errno.EINVAL])
def test_perf_does_without_remote_misses(
    process: CountersProcess, shim: PerfShim, code: int
) -> None:
    shim.refuse(remote_errno=code)
    process.open("perf")
    guest = new_threads(1)
    shim.add_thread(guest.tids[0])
    process.read([guest])
    shim.count(guest.tids[0], VcpuCounts(llc_misses_local=5, llc_misses_remote=4))
    reading = process.read([guest])[guest.guest_uuid]
    assert (reading.llc_misses, reading.llc_misses_remote) == (9, 0)


def test_perf_leaves_a_pmu_alone_that_kvm_gives_to_guests(
    process: CountersProcess, tmp_path: Path
) -> None:
    parameter = tmp_path / "module/kvm_intel/parameters/enable_mediated_pmu"
    parameter.parent.mkdir(parents=True)
    parameter.write_text("Y\n")
    with pytest.raises(CountersUnavailable, match="keep VMs from starting"):
        process.open("perf", sys_directory=str(tmp_path))
    parameter.write_text("N\n")
    assert process.open("perf", sys_directory=str(tmp_path)) == []


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (errno.EACCES, NOT_PERMITTED),
        (errno.EOPNOTSUPP, NO_PMU),
        (errno.EMFILE, (*OUT_OF_FDS, f"{4 * EVENTS_PER_THREAD} for the servers now")),
    ],
)
def test_one_guest_refused_is_told_and_tried_again(
    perf: PerfSubject, code: int, words: tuple[str, ...]
) -> None:
    good, refused = perf.add_guest(), perf.add_guest()
    perf.shim.allow(refused.tids[1], open_errno=code)
    at_rest = perf.fds()
    assert set(perf.driver.read([good, refused])) == {good.guest_uuid}
    assert_tells(perf.driver.problems()[refused.guest_uuid], *words)
    assert perf.fds() == at_rest + len(good.tids) * EVENTS_PER_THREAD
    perf.shim.allow(refused.tids[1])
    assert set(perf.driver.read([good, refused])) == {good.guest_uuid, refused.guest_uuid}
    assert perf.driver.problems() == {}


def test_out_of_descriptors_some_guests_are_still_read(perf: PerfSubject) -> None:
    guests = [perf.add_guest() for _ in range(4)]
    per_guest = 2 * EVENTS_PER_THREAD
    perf.limit_fds(perf.fds() + 2 * per_guest + 5)
    read = set(perf.driver.read(guests))
    assert len(read) == 2
    problems = perf.driver.problems()
    assert set(problems) == {guest.guest_uuid for guest in guests} - read
    for text in problems.values():
        assert_tells(text, *OUT_OF_FDS, f"{4 * per_guest} for the servers now")
    perf.limit_fds(1024)
    assert len(perf.driver.read(guests)) == 4


def test_a_vcpu_that_appears_late_is_counted_from_then_on(perf: PerfSubject) -> None:
    guest = perf.add_guest_lacking_a_vcpu()
    before = perf.driver.read([guest])[guest.guest_uuid]
    perf.shim.add_thread(guest.tids[1])
    now = perf.driver.read([guest])[guest.guest_uuid]
    assert (before.vcpus_read, now.vcpus_read) == (1, 2)
    assert now.generation == before.generation


def test_scaled_counts_never_go_down(perf: PerfSubject) -> None:
    guest = perf.add_guest(vcpus=1)
    (tid,) = guest.tids
    counted = []
    for instructions, running_ns in ((1000, 100), (0, 1000), (0, 0), (500, 1000)):
        perf.shim.count(tid, VcpuCounts(instructions), enabled_ns=1000, running_ns=running_ns)
        counted.append(perf.driver.read([guest])[guest.guest_uuid].instructions)
        if len(counted) == 1:
            started = counted[0]
    assert [count - started for count in counted] == [0, 0, 0, 500]


@pytest.mark.parametrize("code", [errno.EACCES, errno.EMFILE, errno.EOPNOTSUPP])
def test_events_that_libvirtd_lost_are_told(counting_libvirt: LibvirtSubject, code: int) -> None:
    guest = counting_libvirt.add_guest()
    assert guest.guest_uuid in counting_libvirt.driver.read([guest])
    counting_libvirt.shim.refuse(open_errno=code)
    counting_libvirt.restart_libvirtd()
    assert counting_libvirt.driver.read([guest]) == {}
    counting_libvirt.wait_until_known(guest)
    assert counting_libvirt.driver.read([guest]) == {}
    text = counting_libvirt.driver.problems()[guest.guest_uuid]
    assert_tells(text, "instructions", "enabled_perf_events", "hard-reboot", "libvirtd's log")


def test_events_that_nova_did_not_enable_are_named(counting_libvirt: LibvirtSubject) -> None:
    guest = counting_libvirt.start(new_threads(1), ("cpu_cycles", "instructions"))
    assert counting_libvirt.driver.read([guest]) == {}
    text = counting_libvirt.driver.problems()[guest.guest_uuid]
    assert_tells(text, "libvirt: cache_references, cache_misses, task_clock not counted")
    assert_tells(text, f"enabled_perf_events = {','.join(ALL_EVENTS)}")


def test_a_libvirtd_that_is_away_costs_the_sample_only(counting_libvirt: LibvirtSubject) -> None:
    guest = counting_libvirt.add_guest()
    before = counting_libvirt.driver.read([guest])[guest.guest_uuid]
    counting_libvirt.host.stop_libvirtd()
    try:
        assert counting_libvirt.driver.read([guest]) == {}
        assert_tells(counting_libvirt.driver.problems()[guest.guest_uuid], "libvirt: ")
    finally:
        counting_libvirt.host.start_libvirtd()
    counting_libvirt.wait_until_known(guest)
    read = counting_libvirt.driver.read
    # The first sample may be the one that finds the old connection broken.
    wait_until(lambda: guest.guest_uuid in read([guest]), "the guest is read again")
    now = read([guest])[guest.guest_uuid]
    assert now.generation == before.generation or now.instructions < before.instructions


class TestAuto:
    def test_a_vpmu_folder_means_an_emulating_test_host(
        self, process: CountersProcess, tmp_path: Path
    ) -> None:
        assert process.open("auto", vpmu_directory=str(tmp_path)) == []
        assert process.driver_name() == "vpmu"

    def test_perf_is_best_on_real_hosts(self, process: CountersProcess) -> None:
        (passed_over,) = process.open("auto", vpmu_directory="/nowhere")
        assert process.driver_name() == "perf"
        assert_tells(passed_over, "vpmu: ", "/nowhere", "only on test hosts")

    def test_libvirt_serves_an_agent_without_permission(
        self, process: CountersProcess, shim: PerfShim
    ) -> None:
        shim.refuse(open_errno=errno.EACCES)
        passed_over = process.open("auto")
        assert process.driver_name() == "libvirt"
        assert [line.split(":")[0] for line in passed_over] == ["vpmu", "perf"]
        assert_tells(passed_over[1], *NOT_PERMITTED)

    def test_where_nothing_works_each_source_says_why(
        self, process: CountersProcess, shim: PerfShim
    ) -> None:
        shim.refuse(open_errno=errno.ENOENT)
        with pytest.raises(CountersUnavailable) as refused:
            process.open("auto")
        assert_tells(str(refused.value), "no counter source works", "vpmu: ", "perf: ", *NO_PMU)

    def test_an_unknown_name_is_answered_with_the_known_ones(
        self, process: CountersProcess
    ) -> None:
        with pytest.raises(CountersUnavailable, match="auto or one of libvirt, perf, vpmu"):
            process.open("pref")


def test_a_plain_kernel_without_pmu_is_told_apart_from_a_broken_one() -> None:
    """On this very machine, nothing interposed: either it has a PMU, or we say that it has none."""
    process = CountersProcess({})
    told = ""
    try:
        process.open("perf")
    except CountersUnavailable as refused:
        told = str(refused)
    finally:
        process.stop()
    assert not told or any(cause in told for cause in PLAIN_CAUSES), told
