# SPDX-License-Identifier: Apache-2.0
"""Which guests' memory cannot be moved between nodes, by their XML."""

import pytest

from tests.domain_xml import a_domain
from vp_agent.drivers.domain_xml import parse_description

HOST_CPUS = frozenset(range(4))


def obstacle(body: str = "", device: str = "") -> str:
    xml = a_domain(body=body).replace("</devices>", f"{device}</devices>")
    return parse_description(xml, HOST_CPUS).memory_obstacle


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ("<memoryBacking><hugepages/></memoryBacking>", "huge pages"),
        ("<memoryBacking><locked/></memoryBacking>", "locked"),
        ("<launchSecurity type='sev'/>", "encrypted"),
    ],
)
def test_how_memory_is_backed_may_hinder(body, named):
    assert named in obstacle(body)


@pytest.mark.parametrize(
    ("device", "named"),
    [
        ("<hostdev mode='subsystem' type='pci'/>", "VFIO"),
        ("<hostdev mode='subsystem' type='mdev'/>", "VFIO"),
        ("<interface type='hostdev'/>", "VFIO"),
        ("<interface type='vdpa'/>", "vDPA"),
    ],
)
def test_devices_that_pin_memory_hinder(device, named):
    assert named in obstacle(device=device)


@pytest.mark.parametrize(
    "device",
    ["", "<hostdev mode='subsystem' type='usb'/>", "<interface type='bridge'/>"],
)
def test_other_devices_do_not(device):
    assert obstacle(device=device) == ""


def test_shared_memory_alone_does_not():
    backing = "<source type='memfd'/><access mode='shared'/>"
    assert obstacle(f"<memoryBacking>{backing}</memoryBacking>") == ""


def test_every_obstacle_is_named():
    both = obstacle(
        "<memoryBacking><locked/></memoryBacking>", "<hostdev mode='subsystem' type='pci'/>"
    )
    assert "locked" in both
    assert "VFIO" in both
