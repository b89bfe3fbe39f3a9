# SPDX-License-Identifier: Apache-2.0
"""The topology that a virtual host of the lab shows, without any host."""

import pytest

from devstack.lab.topology import (
    Topology,
    files,
    format_list,
    format_mask,
    links,
    parse_cells,
    write_tree,
)

TWO_CELLS = Topology(((0,), (1,)), memory_mib=4096)
EIGHT_CPUS = Topology(((0, 1, 2, 3), (4, 5, 6, 7)), memory_mib=4096)


@pytest.mark.parametrize(
    ("text", "cells"),
    [
        ("0", ((0,),)),
        ("0/1", ((0,), (1,))),
        ("0-3/4-7", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("0,2/1,3", ((0, 2), (1, 3))),
    ],
)
def test_cells_are_parsed(text, cells):
    assert parse_cells(text) == cells


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not a CPU list"),
        ("a/b", "is not a CPU list"),
        ("0-/1", "is not a CPU list"),
        ("0/0", "in two cells"),
        ("0/2", "without a gap"),
        ("1/2", "without a gap"),
    ],
)
def test_wrong_cells_are_refused_with_the_reason(text, reason):
    with pytest.raises(ValueError, match=reason):
        parse_cells(text)


@pytest.mark.parametrize(
    ("cpus", "as_list", "as_mask"),
    [
        ((), "", "0"),
        ((0,), "0", "1"),
        ((0, 1, 2), "0-2", "7"),
        ((0, 2, 3, 7), "0,2-3,7", "8d"),
        ((32,), "32", "1,00000000"),
    ],
)
def test_lists_and_masks_are_the_kernels(cpus, as_list, as_mask):
    assert format_list(cpus) == as_list
    assert format_mask(cpus) == as_mask


def test_each_cell_is_a_socket_with_its_own_last_level_cache():
    tree = files(TWO_CELLS)

    assert [tree[f"cpu/cpu{cpu}/topology/physical_package_id"] for cpu in (0, 1)] == ["0", "1"]
    assert [tree[f"cpu/cpu{cpu}/cache/index3/id"] for cpu in (0, 1)] == ["0", "1"]
    assert tree["cpu/cpu0/cache/index3/shared_cpu_list"] == "0"
    assert files(EIGHT_CPUS)["cpu/cpu5/cache/index3/shared_cpu_list"] == "4-7"


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
