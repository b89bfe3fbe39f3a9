# SPDX-License-Identifier: Apache-2.0
"""Network interfaces of a guest, and which of them have a device of the host with a queue."""

import xml.etree.ElementTree as ET
from typing import NamedTuple

_TAPS = ("bridge", "ethernet", "network")


class Nic(NamedTuple):
    kind: str
    """The type of libvirt's `<interface>`."""
    device: str
    """Of the host; empty: it has none, or nobody says."""

    @property
    def has_tap(self) -> bool:
        """A macvtap, vhost-user or passed-through device tells of no queue."""
        return self.kind in _TAPS and bool(self.device)


def nics_in(domain: ET.Element) -> tuple[Nic, ...]:
    return tuple(_nic(one) for one in domain.iterfind("devices/interface"))


def _nic(interface: ET.Element) -> Nic:
    target = interface.find("target")
    return Nic(interface.get("type", ""), "" if target is None else target.get("dev", ""))
