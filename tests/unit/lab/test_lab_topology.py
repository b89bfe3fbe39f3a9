# SPDX-License-Identifier: Apache-2.0
"""The topology that a virtual host of the lab shows, without any host."""

import pytest

from testbed.lab.topology import (
    Topology,
    files,
    format_mask,
    links,
    write_tree,
)

TWO_CELLS = Topology.parse("0/1", memory_mib=4096)
EIGHT_CPUS = Topology.parse("0-3/4-7", memory_mib=4096)
ONE_CELL_TWO_LLCS = Topology.parse("0+1", memory_mib=4096)
HYPER_THREADS = Topology.parse("0-1,4-5/2-3,6-7*2", memory_mib=4096)


@pytest.mark.parametrize(
    ("text", "cells", "llcs"),
    [
        ("0", ((0,),), ((0,),)),
        ("0/1", ((0,), (1,)), ((0,), (1,))),
        ("0-3/4-7", ((0, 1, 2, 3), (4, 5, 6, 7)), ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("0,2/1,3", ((0, 2), (1, 3)), ((0, 2), (1, 3))),
        ("0+1", ((0, 1),), ((0,), (1,))),
        ("2+0-1/3", ((0, 1, 2), (3,)), ((2,), (0, 1), (3,))),
    ],
)
def test_cells_and_caches_are_parsed(text, cells, llcs):
    topology = Topology.parse(text, memory_mib=4096)

    assert (topology.cells, topology.llcs) == (cells, llcs)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "without CPUs"),
        ("a/b", "is not a CPU"),
        ("0-/1", "is not a CPU"),
        ("0/0", "in two cells or caches"),
        ("0+0", "in two cells or caches"),
        ("0+/1", "without CPUs"),
        ("0/2", "without a gap"),
        ("1/2", "without a gap"),
        ("0-2*2", "odd number of CPUs"),
    ],
)
def test_wrong_cells_are_refused_with_the_reason(text, reason):
    with pytest.raises(ValueError, match=reason):
        Topology.parse(text, memory_mib=4096)


@pytest.mark.parametrize(
    ("cpus", "as_mask"),
    [((), "0"), ((0,), "1"), ((0, 1, 2), "7"), ((0, 2, 3, 7), "8d"), ((32,), "1,00000000")],
)
def test_masks_are_the_kernels(cpus, as_mask):
    assert format_mask(cpus) == as_mask


def test_each_cell_is_a_socket_with_its_own_last_level_cache():
    tree = files(TWO_CELLS)

    assert [tree[f"cpu/cpu{cpu}/topology/physical_package_id"] for cpu in (0, 1)] == ["0", "1"]
    assert [tree[f"cpu/cpu{cpu}/cache/index3/id"] for cpu in (0, 1)] == ["0", "1"]
    assert tree["cpu/cpu0/cache/index3/shared_cpu_list"] == "0"
    assert files(EIGHT_CPUS)["cpu/cpu5/cache/index3/shared_cpu_list"] == "4-7"


def test_one_cell_may_have_two_last_level_caches():
    tree = files(ONE_CELL_TWO_LLCS)

    assert tree["node/online"] == "0"
    assert tree["node/node0/cpulist"] == "0-1"
    assert [tree[f"cpu/cpu{cpu}/topology/physical_package_id"] for cpu in (0, 1)] == ["0", "0"]
    assert [tree[f"cpu/cpu{cpu}/cache/index3/id"] for cpu in (0, 1)] == ["0", "1"]
    assert [tree[f"cpu/cpu{cpu}/cache/index3/shared_cpu_list"] for cpu in (0, 1)] == ["0", "1"]


def test_nodes_are_apart_and_share_the_memory_evenly():
    tree = files(TWO_CELLS)

    assert tree["node/node0/distance"] == "10 21"
    assert tree["node/node1/distance"] == "21 10"
    assert f"MemTotal:        {2048 * 1024} kB" in tree["node/node1/meminfo"]


def test_links_lead_to_each_other(tmp_path):
    write_tree(TWO_CELLS, tmp_path)

    for name in links(TWO_CELLS):
        assert (tmp_path / name).is_dir()
    assert (tmp_path / "cpu/cpu1/node1/cpulist").read_text() == "1\n"
    assert (tmp_path / "node/node0/cpu0/topology/core_id").read_text() == "0\n"


def test_cpus_of_one_core_share_its_private_caches():
    tree = files(HYPER_THREADS)

    assert [HYPER_THREADS.core(cpu) for cpu in (0, 1, 6, 7)] == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert tree["cpu/smt/active"] == "1"
    for cpu, core, core_id, llc in (
        (0, "0,4", "0", "0-1,4-5"),
        (4, "0,4", "0", "0-1,4-5"),
        (7, "3,7", "1", "2-3,6-7"),
    ):
        below = f"cpu/cpu{cpu}"
        assert tree[f"{below}/topology/thread_siblings_list"] == core
        assert tree[f"{below}/topology/core_id"] == core_id
        assert tree[f"{below}/cache/index2/shared_cpu_list"] == core
        assert tree[f"{below}/cache/index2/id"] == core[0]
        assert tree[f"{below}/cache/index3/shared_cpu_list"] == llc
    assert files(EIGHT_CPUS)["cpu/smt/control"] == "notsupported"
