# SPDX-License-Identifier: Apache-2.0
"""What waits for a server in the ring of its tap, on real taps and a real bridge; and the monitor
that triggers it."""

import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

from nova_vp.core.types.overlay import Call, CallAnswer, Nack, Overlay, Verb
from tests.tap_network import Tap, ip, missing_for_taps, own_network, send
from tests.waiting import wait_until
from vp_agent.drivers.link_stats import LinkStatsReader
from vp_agent.drivers.nics import Nic
from vp_agent.drivers.tap_queue import NEVER_EMPTY_S, TapQueue
from vp_agent.loop.monitor_calls import MonitorCall
from vp_agent.monitors.runner import Monitors, open_monitors

WEB, DB = (f"00000000-0000-4000-8000-00000000000{n}" for n in "12")
SHOP = Overlay("00000000-0000-4000-8000-00000000000a", "shop", "p", frozenset({WEB, DB}))
LENGTH = 1400


@pytest.fixture(autouse=True)
def network() -> Iterator[None]:
    if missing := missing_for_taps():
        pytest.skip(missing)
    with own_network():
        yield


@pytest.fixture
def tap() -> Iterator[Tap]:
    made = Tap("tap-web", 2)
    yield made
    made.close()


@pytest.fixture
def links() -> Iterator[LinkStatsReader]:
    reader = LinkStatsReader()
    yield reader
    reader.close()


@pytest.fixture
def queue(tap, links) -> Iterator[TapQueue]:
    opened = TapQueue(tap.device, links, 0.0)
    yield opened
    opened.close()


def packets(queue: TapQueue, now_s: float = 1.0) -> int:
    return queue.read(now_s).packets


@pytest.mark.parametrize("qdisc", ["noqueue", "pfifo", "fq_codel"])
def test_packets_wait_until_the_guest_takes_them(tap, queue, qdisc):
    """Whichever queueing discipline the tap has: it holds nothing."""
    if shutil.which("tc") is None:
        pytest.skip("tc is not installed (tools/install-debian-packages)")
    set_it = ["tc", "qdisc", "replace", "dev", tap.device, "root", qdisc]
    if subprocess.run(set_it, capture_output=True).returncode:
        pytest.skip(f"this kernel has no {qdisc}")
    send(tap, 100, LENGTH)
    waiting = queue.read(1.0)
    assert waiting.packets == 100
    assert waiting.kib == pytest.approx(100 * LENGTH / 1024, rel=0.1)
    tap.read(40)
    assert packets(queue) == 60
    tap.read(1000)
    assert queue.read(1.0) == (0, 0.0, 0)


def test_what_does_not_fit_into_the_ring_is_lost(tap, queue):
    ip("link", "set", tap.device, "txqueuelen", "50")
    send(tap, 80, LENGTH)
    assert packets(queue) == 50
    assert queue.read(1.0).lost == 30


def test_what_the_guest_sends_does_not_wait(tap, queue):
    tap.write(bytes.fromhex("ffffffffffff") + bytes.fromhex("020000000002") + bytes(60))
    assert queue.read(1.0) == (0, 0.0, 0)


def test_a_guest_that_waited_before_it_was_watched_counts_from_then_on(tap, links):
    send(tap, 20, LENGTH)
    queue = TapQueue(tap.device, links, 0.0)
    assert packets(queue, 1.0) == 0
    tap.read(20)
    assert packets(queue, 2.0) == 0
    send(tap, 5, LENGTH)
    assert packets(queue, 3.0) == 5
    queue.close()


def test_bytes_are_those_of_the_latest_packets(tap, queue):
    for _ in range(20):
        send(tap, 1, 100)
        queue.read(1.0)
    tap.read(1000)
    for _ in range(20):
        send(tap, 1, LENGTH)
        queue.read(1.0)
    assert queue.read(1.0).kib == 20 * LENGTH / 1024


def test_what_a_stopped_qemu_left_does_not_wait_for_ever(tap, queue):
    send(tap, 30, LENGTH)
    assert packets(queue, 1.0) == 30
    tap.end_and_begin()
    assert packets(queue, 2.0) == 30
    packets(queue, 1.0 + NEVER_EMPTY_S)
    assert packets(queue, 2.0 + 2 * NEVER_EMPTY_S) == 0
    send(tap, 5, LENGTH)
    assert packets(queue, 3.0 + 2 * NEVER_EMPTY_S) == 5


def test_a_device_that_is_gone_is_told(tap, queue):
    queue.read(1.0)
    ip("link", "delete", tap.device)
    with pytest.raises(OSError, match="No such device"):
        queue.read(2.0)


class Host:
    """Servers, the monitor, and who takes its calls."""

    def __init__(self, line: str = "network-backlog") -> None:
        self.nics = {WEB: (Nic("bridge", "tap-web"),)}
        self.nack: Nack | None = None
        self.calls: list[Call] = []
        self._opened = open_monitors([line])
        [(_, self.monitor)] = self._opened
        self._monitors = Monitors(
            self._opened, lambda: {SHOP.id: SHOP}, lambda: self.nics, lambda: None, self._answer
        )

    def _answer(self, asked: MonitorCall) -> CallAnswer:
        call = asked.call
        self.calls.append(call)
        return CallAnswer(call.id, self.nack)

    def look(self) -> dict[str, str]:
        return dict(self._monitors.look(self.monitor))


@pytest.fixture
def host() -> Iterator[Host]:
    made = Host()
    yield made
    made.monitor.close()


def test_more_than_the_limit_triggers_the_server_once_for_its_lease(tap, host):
    host.look()
    send(tap, 80, LENGTH)  # 109 KiB
    host.look()
    assert not host.calls
    send(tap, 20, LENGTH)
    assert host.look() == {}
    [call] = host.calls
    assert (call.verb, call.overlay_id, call.guest_uuid) == (Verb.TRIGGER, SHOP.id, WEB)
    assert call.lease_s == 0.25
    host.look()
    assert len(host.calls) == 1


def test_lost_packets_trigger_the_server(tap, host):
    ip("link", "set", tap.device, "txqueuelen", "10")
    host.look()
    send(tap, 11, LENGTH)
    host.look()
    assert [call.guest_uuid for call in host.calls] == [WEB]


def test_a_server_of_no_overlay_is_not_looked_at(tap, host):
    host.nics = {"00000000-0000-4000-8000-000000000009": host.nics[WEB]}
    host.look()
    send(tap, 200, LENGTH)
    host.look()
    assert not host.calls


def test_nobody_calls_for_a_server_that_ended(tap):
    host = Host("network-backlog lease_s=1e-9")
    host.look()
    send(tap, 200, LENGTH)
    host.look()
    assert len(host.calls) == 1
    host.look()
    assert len(host.calls) == 2, "its lease is over and packets wait"
    host.nics = {}
    host.look()
    assert len(host.calls) == 2
    host.monitor.close()


def test_a_server_that_ended_is_forgotten_and_one_that_came_back_begins_anew(tap, host):
    host.look()
    send(tap, 200, LENGTH)
    nics, host.nics = host.nics, {}
    host.look()
    host.nics = nics
    host.look()
    assert not host.calls


def test_a_tap_that_was_made_anew_is_opened_anew(tap, host):
    host.look()
    ip("link", "delete", tap.device)
    problems = wait_until(host.look, "that it is gone is noticed")
    assert problems == {WEB: "network interface tap-web: No such device"}
    again = Tap("tap-web", 2)
    assert host.look() == {}
    send(again, 200, LENGTH)
    host.look()
    assert [call.guest_uuid for call in host.calls] == [WEB]
    again.close()


@pytest.mark.parametrize("kind", ["hostdev", "vdpa", "vhostuser", "direct"])
def test_interfaces_without_a_tap_are_unsupported(tap, host, kind):
    host.nics = {DB: (Nic(kind, "macvtap0" if kind == "direct" else ""),), **host.nics}
    problems = host.look()
    assert problems.keys() == {DB}
    assert "unsupported" in problems[DB]
    assert kind in problems[DB]


WITHOUT_RIGHT = """\
from tests.contract.test_network_backlog import Host
print(Host().look())
"""


def test_without_its_right_the_monitor_says_what_to_do(tap):
    if shutil.which("setpriv") is None:
        pytest.skip("setpriv is not installed")
    lacking = ["setpriv", "--inh-caps=-net_raw", "--bounding-set=-net_raw"]
    done = subprocess.run(
        [*lacking, sys.executable, "-c", WITHOUT_RIGHT], capture_output=True, text=True
    )
    assert "CAP_NET_RAW is missing" in done.stdout, done.stderr
    assert "network.conf" in done.stdout
