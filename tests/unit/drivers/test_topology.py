# SPDX-License-Identifier: Apache-2.0
"""LLC domains from what libvirt and sysfs tell, which is more on some hosts than on others."""

import pytest

from nova_vp.cpuset import format_cpus
from vp_agent.drivers.topology import parse_topology


def capabilities(cells, banks=()):
    cell_xml = "".join(
        f"<cell id='{node}'><cpus>{''.join(f'<cpu id={cpu!r}/>' for cpu in map(str, cpus))}</cpus>"
        "</cell>"
        for node, cpus in cells
    )
    bank_xml = "".join(
        f"<bank id='{i}' level='{level}' type='both' size='32' unit='MiB' cpus='{cpus}'/>"
        for i, (level, cpus) in enumerate(banks)
    )
    return (
        f"<capabilities><host><topology><cells>{cell_xml}</cells></topology>"
        f"<cache>{bank_xml}</cache></host></capabilities>"
    )


TWO_CELLS = [(0, range(4)), (1, range(4, 8))]


@pytest.mark.parametrize(
    ("text", "domains"),
    [
        pytest.param(
            capabilities(TWO_CELLS, [(3, "0-3"), (3, "4-7")]),
            [(0, 0, "0-3"), (1, 1, "4-7")],
            id="a socket, a cache",
        ),
        pytest.param(
            capabilities([(0, range(8))], [(3, "4-7"), (3, "0-3")]),
            [(0, 0, "0-3"), (1, 0, "4-7")],
            id="two core complexes in one node",
        ),
        pytest.param(
            capabilities([(0, (0, 2, 4, 6)), (1, (1, 3, 5, 7))], [(3, "0,2,4,6"), (3, "1,3,5,7")]),
            [(0, 0, "0,2,4,6"), (1, 1, "1,3,5,7")],
            id="interleaved CPU numbers",
        ),
        pytest.param(
            capabilities(TWO_CELLS, [(3, "0-3"), (3, "4-7"), (4, "0-7")]),
            [(0, 0, "0-3"), (1, 1, "4-7")],
            id="a shared fourth level is split by node",
        ),
        pytest.param(
            capabilities([(0, (0, 1, 3)), (1, range(4, 8)), (2, ())], [(3, "0-3"), (3, "4-7")]),
            [(0, 0, "0-1,3"), (1, 1, "4-7")],
            id="an offline CPU and a node without CPUs",
        ),
        pytest.param(
            capabilities(TWO_CELLS, [(3, "0-3")]),
            [(0, 0, "0-3"), (1, 1, "4-7")],
            id="CPUs that no bank names",
        ),
        pytest.param(
            capabilities(TWO_CELLS),
            [(0, 0, "0-3"), (1, 1, "4-7")],
            id="no caches known: the cells",
        ),
    ],
)
def test_domains(text, domains, tmp_path):
    topology = parse_topology(text, sysfs_cpu=tmp_path)
    assert [(d.id, d.node, format_cpus(d.cpus)) for d in topology.domains] == domains


def test_a_last_level_below_three_is_read_from_sysfs(tmp_path):
    """libvirt leaves out levels 1 and 2."""
    for cpu in range(8):
        pair = f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}"
        for index, (level, shared) in enumerate([(1, str(cpu)), (2, pair)]):
            folder = tmp_path / f"cpu{cpu}/cache/index{index}"
            folder.mkdir(parents=True)
            (folder / "level").write_text(f"{level}\n")
            (folder / "shared_cpu_list").write_text(f"{shared}\n")
    topology = parse_topology(capabilities(TWO_CELLS), sysfs_cpu=tmp_path)
    assert [format_cpus(d.cpus) for d in topology.domains] == ["0-1", "2-3", "4-5", "6-7"]
    assert [d.node for d in topology.domains] == [0, 0, 1, 1]


def test_cpus_that_libvirt_calls_siblings_are_one_core():
    cells = "".join(
        f"<cpu id='{cpu}' siblings='{cpu % 4},{cpu % 4 + 4}'/>" if cpu != 8 else "<cpu id='8'/>"
        for cpu in range(9)
    )
    text = (
        "<capabilities><host><topology><cells><cell id='0'><cpus>"
        f"{cells}</cpus></cell></cells></topology>"
        "<cache><bank id='0' level='3' cpus='0-8'/></cache></host></capabilities>"
    )
    [domain] = parse_topology(text).domains
    assert [set(core) for core in domain.shared_cores] == [{n, n + 4} for n in range(4)]
    assert domain.cores == 5


def test_siblings_that_libvirt_does_not_name_are_read_from_sysfs(tmp_path):
    for cpu in range(8):
        folder = tmp_path / f"cpu{cpu}/topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}\n")
    topology = parse_topology(capabilities(TWO_CELLS), sysfs_cpu=tmp_path)
    shared = [[format_cpus(core) for core in d.shared_cores] for d in topology.domains]
    assert shared == [["0-1", "2-3"], ["4-5", "6-7"]]
    assert [d.cores for d in topology.domains] == [2, 2]
