# SPDX-License-Identifier: Apache-2.0
"""Counters of write-backs, as sysfs and resctrl show them."""

import os

import pytest

from vp_agent.calibration import writebacks
from vp_agent.calibration.writebacks import Monitoring, NoCounter, Uncore, find


@pytest.fixture
def host(tmp_path):
    """Two packages; the CPUs of node 0 are in the first."""
    for cpu, package in {0: 0, 1: 0, 2: 1, 3: 1}.items():
        write(tmp_path / f"system/cpu/cpu{cpu}/topology/physical_package_id", package)
    write(tmp_path / "system/node/node0/cpulist", "0-1")
    write(tmp_path / "system/node/node1/cpulist", "2-3")
    return tmp_path


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"{text}\n")


def a_controller(host, number, event="cas_count_write", scale="6.103515625e-5"):
    pmu = host / f"pmus/uncore_imc_{number}"
    write(pmu / "type", 20 + number)
    write(pmu / "cpumask", "0,2")
    write(pmu / "format/event", "config:0-7")
    write(pmu / "format/umask", "config:8-15")
    write(pmu / f"events/{event}", "event=0x04,umask=0x0c")
    if scale:
        write(pmu / f"events/{event}.scale", scale)


class Pmus:
    """Opens files that read as counts, as the kernel does for a PMU's events."""

    def __init__(self, folder, counts):
        self._folder, self._counts = folder, counts
        self.opened = []

    def __call__(self, event, cpu):
        self.opened.append((event.type, hex(event.config), cpu))
        path = self._folder / f"{event.type}-{cpu}"
        path.write_bytes(self._counts[event.type, cpu].to_bytes(8, "little"))
        return os.open(path, os.O_RDONLY)


def uncore(host, counts):
    opens = Pmus(host, counts)
    return Uncore(host / "pmus", host / "system", opens), opens


def test_the_memory_controllers_of_a_nodes_package_are_summed_in_lines(host):
    a_controller(host, 0)
    a_controller(host, 1, event="data_write", scale="1.220703125e-4")
    counts = {(20, 0): 1000, (20, 2): 7, (21, 0): 100, (21, 2): 0}
    counter, opens = uncore(host, counts)
    assert opens.opened == [
        (20, "0xc04", 0), (20, "0xc04", 2), (21, "0xc04", 0), (21, "0xc04", 2),
    ]  # fmt: skip
    assert counter.lines(0) == pytest.approx(1000 + 2 * 100)
    counter.close()


def test_of_the_other_package_only_its_own(host):
    a_controller(host, 0)
    counter, _ = uncore(host, {(20, 0): 1000, (20, 2): 7})
    assert counter.lines(1) == pytest.approx(7)
    counter.close()


def test_without_a_scale_a_count_is_a_line(host):
    a_controller(host, 0, scale=None)
    counter, _ = uncore(host, {(20, 0): 5, (20, 2): 0})
    assert counter.lines(0) == 5
    counter.close()


def test_who_may_not_count_leaves_nothing_open(host):
    a_controller(host, 0)
    opened = []

    def refuses_the_second(event, cpu):
        if opened:
            raise PermissionError(13, "not permitted")
        opened.append(os.open(os.devnull, os.O_RDONLY))
        return opened[0]

    with pytest.raises(PermissionError):
        Uncore(host / "pmus", host / "system", refuses_the_second)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


def test_a_host_without_memory_controllers_has_no_such_counter(host):
    with pytest.raises(OSError, match="no memory controller that counts writes"):
        Uncore(host / "none", host / "system")


def monitored(host, **bytes_by_cache):
    for cache, text in bytes_by_cache.items():
        write(host / f"resctrl/mon_data/mon_L3_{cache}/mbm_total_bytes", text)
    return Monitoring(host / "resctrl")


def test_resctrl_counts_what_all_caches_moved(host):
    counter = monitored(host, c00=640, c01=64)
    assert counter.lines(0) == 11
    assert counter.counts_reads


def test_resctrl_that_counts_nothing_now_is_none(host):
    with pytest.raises(OSError, match="Unavailable"):
        monitored(host, c00="Unavailable")
    with pytest.raises(OSError, match="monitors no memory bandwidth"):
        Monitoring(host)


def refused():
    raise PermissionError(13, "not permitted")


def test_the_first_counter_that_works_is_taken(host):
    monitoring = monitored(host, c00=640)
    assert find({"uncore": refused, "resctrl": lambda: monitoring}) is monitoring
    assert isinstance(find({"uncore": refused}), NoCounter)


def test_whatever_this_host_has_is_no_error():
    counter = writebacks.find()
    assert counter.lines(0) >= 0
    counter.close()
