# SPDX-License-Identifier: Apache-2.0
"""Devices of the host that are passed through to a guest, and the CPUs of the nodes they are on.

A guest that runs on another node reaches its device, and the device its memory, through a link.
"""

import xml.etree.ElementTree as ET
from collections.abc import Iterable, Iterator
from pathlib import Path

from nova_vp.core.types.topology import Topology

SYSFS_BUS = Path("/sys/bus")
_PCI = (
    "devices/hostdev[@type='pci']/source/address",
    "devices/interface[@type='hostdev']/source/address",
)
_MEDIATED = "devices/hostdev[@type='mdev']/source/address"


def devices_in(domain: ET.Element) -> tuple[str, ...]:
    """The folder of each below /sys/bus; of a mediated device, that of its parent. Those whose
    address is not understood are left out."""
    found = [_pci(address) for path in _PCI for address in domain.iterfind(path)]
    found += [_mediated(address) for address in domain.iterfind(_MEDIATED)]
    return tuple(device for device in found if device)


def _pci(address: ET.Element) -> str:
    try:
        domain, bus, slot, function = (
            int(address.get(name, "0"), 0) for name in ("domain", "bus", "slot", "function")
        )
    except ValueError:
        return ""
    return f"pci/devices/{domain:04x}:{bus:02x}:{slot:02x}.{function:x}"


def _mediated(address: ET.Element) -> str:
    uuid = address.get("uuid", "")
    return f"mdev/devices/{uuid}/.." if uuid.replace("-", "").isalnum() else ""


def place_near(
    devices: Iterable[str],
    allowed_cpus: frozenset[int],
    vcpus: int,
    topology: Topology,
    sysfs_bus: Path = SYSFS_BUS,
) -> frozenset[int]:
    """Of Nova's bound, what is on the nodes of the devices; all of it where there is no device, the
    firmware tells of no node, or so many vCPUs would not fit there."""
    nodes = set(_nodes(devices, sysfs_bus))
    near = frozenset().union(*(d.cpus for d in topology.domains if d.node in nodes))
    return near & allowed_cpus if len(near & allowed_cpus) >= vcpus else allowed_cpus


def _nodes(devices: Iterable[str], sysfs_bus: Path) -> Iterator[int]:
    for device in devices:
        try:
            yield int((sysfs_bus / device / "numa_node").read_text())
        except (OSError, ValueError):
            continue
