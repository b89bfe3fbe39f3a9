# SPDX-License-Identifier: Apache-2.0
"""Packets that wait for a guest of real QEMU, behind a real tap on a bridge: the real agent
triggers it, and leaves nothing."""

import time
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

SHOP = "00000000-0000-4000-8000-00000000000a"
MAC, ADDRESS, TAP = "52:54:00:00:00:02", "10.9.0.2", "tap-web"
INTERFACE = f"""\
<interface type="bridge"><mac address="{MAC}"/><source bridge="{BRIDGE}"/>
  <target dev="{TAP}"/><model type="virtio"/><rom enabled="no"/></interface>"""
LOOKS, LOOKS_EVERY_S = 20, 0.05
"""Of the monitor, on a machine that has nothing else to do."""


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


def test_the_agent_triggers_a_guest_that_leaves_its_packets_waiting(host, tmp_path):
    subject = LibvirtSubject(host)
    uuid = subject.boot_xml(
        metadata=nova_metadata(extra_specs={"vp:cpu_floor": "10"}),
        firmware=write_halting(tmp_path / "halting.bin"),
        devices=INTERFACE,
    )
    before = subject.weight(uuid)
    reach(TAP, ADDRESS, MAC)
    agent = OverlayAgent(host, tmp_path, monitors="network-backlog")
    agent.tell(Overlay(SHOP, "shop", PROJECT_ID, frozenset({uuid})))
    try:
        agent.start(lambda: "reserved" in subject.live_xml(uuid))
        wait_until(_is_counted, "the monitor counts the packets of the tap")
        send_to(ADDRESS, 80, 1400)
        for _ in range(LOOKS):
            time.sleep(LOOKS_EVERY_S)
            assert subject.weight(uuid) == before, "109 KiB wait"
        send_to(ADDRESS, 80, 1400)
        wait_until(lambda: subject.weight(uuid).number > before.number, "it is triggered")
        assert agent.stop() == 0, agent.log()[-3000:]
        assert subject.weight(uuid) == before
    finally:
        agent.close()


def _is_counted() -> bool:
    """A socket sees the packets of a device: none is there before the monitor's first look."""
    return len(Path("/proc/thread-self/net/packet").read_text().splitlines()) > 1
