# SPDX-License-Identifier: Apache-2.0
"""Which devices are passed through to a guest, and where they are."""

import pytest

from nova_vp.core.types.topology import LlcDomain, Topology
from tests.domain_xml import a_domain
from vp_agent.drivers.domain_xml import parse_description
from vp_agent.drivers.passed_devices import place_near

HOST = Topology(tuple(LlcDomain(n, n, frozenset({2 * n, 2 * n + 1})) for n in range(3)))
ADDRESS = "<source><address domain='0x0000' bus='0x3b' slot='0x02' function='0x1'/></source>"
PCI = f"<hostdev mode='subsystem' type='pci'>{ADDRESS}</hostdev>"
NETWORK = f"<interface type='hostdev'>{ADDRESS}</interface>"
UUID = "c2177883-f1bb-47f0-914d-32a22e3a8804"
MEDIATED = f"<hostdev type='mdev'><source><address uuid='{UUID}'/></source></hostdev>"


def devices(xml: str) -> tuple[str, ...]:
    return parse_description(a_domain(devices=xml), HOST.cpus).devices


@pytest.mark.parametrize(
    ("xml", "found"),
    [
        ("", ()),
        ("<hostdev mode='subsystem' type='usb'/>", ()),
        (PCI, ("pci/devices/0000:3b:02.1",)),
        (NETWORK, ("pci/devices/0000:3b:02.1",)),
        (MEDIATED, (f"mdev/devices/{UUID}/..",)),
        (PCI.replace("0x3b", "x"), ()),
        (MEDIATED.replace(UUID, "../../x"), ()),
        (MEDIATED.replace(f"uuid='{UUID}'", ""), ()),
    ],
)
def test_devices_are_known_by_their_address(xml, found):
    assert devices(xml) == found


def near(sysfs_bus, *names: str, vcpus: int = 1, allowed: frozenset[int] = HOST.cpus) -> set[int]:
    return set(place_near(names, allowed, vcpus, HOST, sysfs_bus))


@pytest.fixture
def sysfs_bus(tmp_path):
    """Devices are named by what the kernel says of their node."""
    for text in ("0", "1", "2", "7", "-1", "x"):
        (tmp_path / text).mkdir()
        (tmp_path / text / "numa_node").write_text(f"{text}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("names", "cpus"),
    [
        pytest.param([], HOST.cpus, id="no device"),
        pytest.param(["1"], {2, 3}, id="one"),
        pytest.param(["0", "2"], {0, 1, 4, 5}, id="on two nodes"),
        pytest.param(["-1"], HOST.cpus, id="the firmware does not say"),
        pytest.param(["7"], HOST.cpus, id="a node without CPUs"),
        pytest.param(["x"], HOST.cpus, id="not a number"),
        pytest.param(["gone"], HOST.cpus, id="it has just gone"),
    ],
)
def test_the_cpus_of_its_node_are_near(sysfs_bus, names, cpus):
    assert near(sysfs_bus, *names) == cpus


def test_novas_bound_holds_and_who_would_not_fit_is_not_narrowed(sysfs_bus):
    assert near(sysfs_bus, "1", vcpus=2) == {2, 3}
    assert near(sysfs_bus, "1", vcpus=3) == HOST.cpus
    assert near(sysfs_bus, "1", allowed=frozenset({0, 3})) == {3}
    assert near(sysfs_bus, "1", vcpus=2, allowed=frozenset({0, 3})) == {0, 3}


def test_a_mediated_device_is_where_its_parent_is(tmp_path):
    parent = tmp_path / "devices/pci0000:00/0000:00:02.0"
    (parent / UUID).mkdir(parents=True)
    (parent / "numa_node").write_text("2\n")
    (tmp_path / "mdev/devices").mkdir(parents=True)
    (tmp_path / "mdev/devices" / UUID).symlink_to(parent / UUID)
    assert near(tmp_path, *devices(MEDIATED)) == {4, 5}
