# SPDX-License-Identifier: Apache-2.0
"""Sibling threads: the topology's files, libvirt, the software PMU and the fakes name the same
cores, and a guest beside a busy sibling is as slow as the model says."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nova_vp.core.types.topology import Topology
from testbed.lab import settings
from testbed.lab import topology as lab
from tests.bench.modelled_cpus import Trial
from tests.bench.paced_guests import VPMU, PacedHost
from tests.contract.test_modelled_cpus import NAMES, measured, near
from tests.libvirt_host import missing_for_libvirt
from tests.unit.core.build import hyper_threads
from vp_agent.drivers.topology import parse_topology
from vp_sim.machine import Shape

CELLS = "0-1,4-5/2-3,6-7*2"
"""Two nodes of two cores each; the siblings are 0 and 4, 1 and 5, 2 and 6, 3 and 7."""
SPEED = 0.65
"""That testbed/vpmu gives each of two busy siblings."""
FAKE = hyper_threads(2)
WITHOUT_SIBLINGS = (
    "<capabilities><host><topology><cells>"
    "<cell id='0'><cpus><cpu id='0'/><cpu id='1'/><cpu id='4'/><cpu id='5'/></cpus></cell>"
    "<cell id='1'><cpus><cpu id='2'/><cpu id='3'/><cpu id='6'/><cpu id='7'/></cpus></cell>"
    "</cells></topology></host></capabilities>"
)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    lab.write_tree(lab.Topology.parse(CELLS, settings.HOST_MEMORY_MIB), tmp_path)
    return tmp_path / "cpu"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PacedHost]:
    missing = missing_for_libvirt()
    if missing:
        pytest.skip(missing)
    folder = tmp_path_factory.mktemp("siblings")
    host = PacedHost(folder, CELLS, {"siblings": "auto"}, modelled_cpus=8)
    try:
        host.start(dict.fromkeys(NAMES, "compute"))
        yield host
    finally:
        host.stop()


def pairs(topology: Topology) -> str:
    """As the software PMU's option has them."""
    cores = [sorted(core) for domain in topology.domains for core in domain.shared_cores]
    return ";".join(f"{first}:{second}" for first, second in sorted(cores))


def test_fake_simulator_files_and_software_pmu_name_the_same_cores(tree: Path) -> None:
    subprocess.run(["make", "-s", "-C", str(VPMU)], check=True, stdout=subprocess.DEVNULL)
    said = subprocess.run(
        [VPMU / "vpmu", "siblings", tree], check=True, capture_output=True, text=True
    )
    simulated = Shape(nodes=2, domains_per_node=1, cores_per_domain=2, threads_per_core=2)
    assert parse_topology(WITHOUT_SIBLINGS, tree) == FAKE == simulated.topology()
    assert said.stdout == f"{pairs(FAKE)}\n"


def test_a_host_without_siblings_has_none(tmp_path: Path) -> None:
    lab.write_tree(lab.Topology.parse("0-3/4-7", settings.HOST_MEMORY_MIB), tmp_path)
    said = subprocess.run(
        [VPMU / "vpmu", "siblings", tmp_path / "cpu"], check=True, capture_output=True, text=True
    )
    assert said.stdout == "none\n"


def test_libvirt_tells_the_cores_of_the_files(host: PacedHost) -> None:
    connection = host.libvirt.connect()
    try:
        seen = parse_topology(connection.getCapabilities(), Path("/nowhere"))
    finally:
        connection.close()
    assert pairs(seen) == pairs(FAKE)


def test_a_busy_sibling_slows_a_guest_that_waits_for_nothing(host: PacedHost) -> None:
    trial = Trial(host)
    trial.taskset("one", "2")
    trial.taskset("two", "3")
    alone = measured(trial, *NAMES, is_solo=True)
    assert all(row.granted_ratio == near(1.0) for row in alone)
    trial.taskset("two", "6")
    for row in measured(trial, *NAMES):
        assert row.of_solo_ratio == near(SPEED)
        assert (row.granted_ratio, row.run_delay_ratio) == (near(1.0), near(0.0))
    trial.taskset("two", "3,6")
    for row in measured(trial, *NAMES):
        assert row.of_solo_ratio == near(1.0), "a free core comes before a free sibling"
