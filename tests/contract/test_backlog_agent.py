# SPDX-License-Identifier: Apache-2.0
"""Packets that wait for a guest of real QEMU, behind a real tap on a bridge: the real agent
triggers it, and leaves nothing."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nova_vp.core.types.overlay import Overlay
from tests.domain_xml import PROJECT_ID, nova_metadata, write_halting
from tests.host_subjects import LibvirtSubject
from tests.libvirt_host import LibvirtHost, missing_for_libvirt
from tests.overlay_agent import OverlayAgent
from tests.tap_network import BRIDGE, missing_for_taps, own_network, reach, send_to
from tests.waiting import wait_until

INTERFACE = f"""\
<interface type="bridge"><mac address="{{mac}}"/><source bridge="{BRIDGE}"/>
  <target dev="{{tap}}"/><model type="virtio"/><rom enabled="no"/></interface>"""
SHOP, MILLS = (f"00000000-0000-4000-8000-00000000000{n}" for n in "ab")


@pytest.fixture
def host(tmp_path: Path) -> Iterator[LibvirtHost]:
    if missing := missing_for_libvirt() or missing_for_taps():
        pytest.skip(missing)
    folder = tmp_path / "host"
    folder.mkdir()
    made = LibvirtHost(folder, migration_port=49500)
    with own_network(), ExitStack() as stack:
        stack.callback(made.stop)
        yield made.start()


class Guest:
    """One that never takes a packet."""

    def __init__(self, subject: LibvirtSubject, folder: Path, number: int) -> None:
        self._subject = subject
        self.address, self._tap = f"10.9.0.{number}", f"tap-{number}"
        self._mac = f"52:54:00:00:00:{number:02x}"
        self.uuid = subject.boot_xml(
            metadata=nova_metadata(extra_specs={"vp:cpu_floor": "10"}),
            firmware=write_halting(folder / f"halting-{number}.bin"),
            devices=INTERFACE.format(mac=self._mac, tap=self._tap),
        )
        reach(self._tap, self.address, self._mac)

    def weight(self) -> int:
        return self._subject.weight(self.uuid).number

    def is_reserved(self) -> bool:
        return "reserved" in self._subject.live_xml(self.uuid)


def test_the_agent_triggers_a_guest_that_leaves_its_packets_waiting(host, tmp_path):
    subject = LibvirtSubject(host)
    web, mill = (Guest(subject, tmp_path, number) for number in (2, 3))
    before = web.weight()
    agent = OverlayAgent(host, tmp_path, monitors="network-backlog")
    agent.tell(
        Overlay(SHOP, "shop", PROJECT_ID, frozenset({web.uuid})),
        Overlay(MILLS, "mills", PROJECT_ID, frozenset({mill.uuid})),
    )
    try:
        agent.start(lambda: web.is_reserved() and mill.is_reserved())
        wait_until(_are_counted, "the monitor counts the packets of both taps")
        send_to(web.address, 80, 1400)
        send_to(mill.address, 160, 1400)
        # One look reads both queues, and makes all its calls before the next.
        wait_until(lambda: _granted(agent, MILLS) >= 2, "another look follows a trigger")
        assert _granted(agent, SHOP) == 0, "109 KiB wait"
        send_to(web.address, 80, 1400)
        wait_until(lambda: web.weight() > before, "it is triggered")
        assert agent.stop() == 0, agent.log()[-3000:]
        assert web.weight() == mill.weight() == before
    finally:
        agent.close()


def _are_counted() -> bool:
    """A socket sees the packets of a device: none is there before the monitor's first look."""
    return len(Path("/proc/thread-self/net/packet").read_text().splitlines()) > 2


def _granted(agent: OverlayAgent, overlay: str) -> int:
    return next(one["granted"] for one in agent.status()["overlays"] if one["id"] == overlay)
