# SPDX-License-Identifier: Apache-2.0
"""Monitors on the host: the operator's lines, and how what they want becomes calls."""

import logging
from typing import Any

import pytest
from oslo_config import cfg

from nova_vp.core.types.overlay import Call, CallAnswer, Nack, Overlay, Verb
from nova_vp.monitors.base import Wanted
from tests.domain_xml import a_domain
from tests.waiting import wait_until
from vp_agent.drivers.domain_xml import parse_description
from vp_agent.drivers.nics import Nic
from vp_agent.monitors.base import Seen
from vp_agent.monitors.runner import Monitors, open_monitors

WEB, MILL, OTHER = (f"00000000-0000-4000-8000-00000000000{n}" for n in "123")
SHOP, MILLS = (f"00000000-0000-4000-8000-00000000000{n}" for n in "ab")
OVERLAYS = {
    SHOP: Overlay(SHOP, "shop", "p", frozenset({WEB})),
    MILLS: Overlay(MILLS, "mills", "q", frozenset({MILL})),
}


class Scripted:
    """A monitor that wants what it is told to want; and the decisions of it."""

    interval_s = 0.001
    capabilities = frozenset[int]()

    def __init__(self) -> None:
        self.wants: list[Wanted] = []
        self.answers: list[tuple[Wanted, Nack | None]] = []
        self.seen: list[Seen] = []
        self.problems: dict[str, str] = {}
        self.fault: Exception | None = None
        self.is_closed = False

    @property
    def decides(self) -> Any:
        return self

    def look(self, seen: Seen, now_s: float) -> dict[str, str]:
        self.seen.append(seen)
        if self.fault:
            raise self.fault
        return self.problems

    def wanted(self, now_s: float) -> list[Wanted]:
        return self.wants

    def answered(self, call: Wanted, nack: Nack | None, now_s: float) -> None:
        self.answers.append((call, nack))

    def close(self) -> None:
        self.is_closed = True


class Host:
    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.monitor = Scripted()
        self.monitors = Monitors(
            [("scripted", self.monitor)],
            lambda: OVERLAYS,
            lambda: {WEB: (Nic("bridge", "tap0"),)},
            self._answer,
        )

    def _answer(self, call: Call) -> CallAnswer:
        self.calls.append(call)
        return CallAnswer(call.id, Nack.NO_CREDIT if call.verb is Verb.TRIGGER else None)


def test_a_call_is_made_for_the_overlay_of_its_server_and_answered():
    host = Host()
    host.monitor.wants = [
        Wanted(Verb.TRIGGER, WEB, lease_s=0.25),
        Wanted(Verb.BORROW, MILL, cpus=2, island="batch", lease_s=60.0),
    ]
    host.monitors.look(host.monitor)
    assert [(c.overlay_id, c.verb, c.guest_uuid, c.lease_s) for c in host.calls] == [
        (SHOP, Verb.TRIGGER, WEB, 0.25),
        (MILLS, Verb.BORROW, MILL, 60.0),
    ]
    assert (host.calls[1].cpus, host.calls[1].island) == (2, "batch")
    assert len({call.id for call in host.calls}) == 2
    assert [nack for _, nack in host.monitor.answers] == [Nack.NO_CREDIT, None]


def test_a_server_of_no_overlay_is_not_called_for():
    host = Host()
    host.monitor.wants = [Wanted(Verb.TRIGGER, OTHER)]
    host.monitors.look(host.monitor)
    assert host.calls == host.monitor.answers == []


def test_a_monitor_sees_the_servers_of_overlays_and_their_interfaces():
    host = Host()
    host.monitors.look(host.monitor)
    [seen] = host.monitor.seen
    assert seen.members == {WEB, MILL}
    assert seen.nics[WEB] == (Nic("bridge", "tap0"),)


def test_what_cannot_be_seen_is_told_once_and_a_fault_ends_nothing(caplog):
    host = Host()
    host.monitor.problems = {WEB: "unsupported"}
    with caplog.at_level(logging.WARNING):
        host.monitors.start()
        wait_until(lambda: len(host.monitor.seen) >= 3, "it looks")
        assert [r.message for r in caplog.records] == [f"vp={WEB} monitor scripted: unsupported"]
        host.monitor.fault = RuntimeError("soup")
        wait_until(lambda: len(caplog.records) == 2, "the fault is told")
        assert caplog.records[1].message == "monitor scripted: RuntimeError: soup"
        before = len(host.monitor.seen)
        wait_until(lambda: len(host.monitor.seen) > before, "it looks on")
        host.monitors.close()
        wait_until(lambda: host.monitor.is_closed, "it is closed")


CLASSES = f"class.a=x servers.a={WEB} class.b=y servers.b={MILL}"
WRONG = {
    "": "write the name of a monitor",
    "soup": "soup: give one of ",
    "network-backlog limit": "each setting once",
    "limit_kib=3": "each setting once",
    "network-backlog limit_kib=1 limit_kib=2": "each setting once",
    "network-backlog limit=1": "the settings of this monitor are limit_kib, lease_s, retry_s",
    "network-backlog limit_kib=0": "limit_kib=0: give a number above 0",
    "network-backlog limit_kib=-1": "give a number above 0",
    "network-backlog limit_kib=inf": "give a number above 0",
    "network-backlog limit_kib=soup": "give a number above 0",
    "network-backlog 'limit_kib": "No closing quotation",
    "stream-classes port=0": "port=0: give a number from 1 to 65535",
    "stream-classes steps=-1": "steps=-1: give a whole number, 0 or more",
    "stream-classes steps=1.5": "give a whole number",
    f"request-classes server={WEB}": "give two classes or more",
    f"request-classes server={WEB} class.a=x servers.a={WEB} class.b=y": "servers.NAME=UUID",
    f"request-classes server=web {CLASSES}": "web: give ids of servers",
    f"request-classes {CLASSES}": "give ids of servers",
    f"request-classes server={WEB} {CLASSES} class.c=( servers.c={WEB}": "a regular expression",
    f"request-classes server={WEB} {CLASSES} port=65536": "from 1 to 65535",
    f"request-classes server={WEB} {CLASSES} soup=1": "soup: the settings of this monitor are ",
}


@pytest.mark.parametrize(("line", "said"), WRONG.items())
def test_a_wrong_line_is_told_with_what_to_write(line: str, said: str) -> None:
    with pytest.raises(cfg.Error, match=r"\[agent\] monitors: ") as refused:
        open_monitors([line])
    assert said in str(refused.value)


INTERFACES = """
<interface type="bridge"><source bridge="qbr1"/><target dev="tap1"/></interface>
<interface type="ethernet"><target dev="tap2"/></interface>
<interface type="vhostuser"><source type="unix" path="/x"/><target dev="vhu1"/></interface>
<interface type="direct"><target dev="macvtap0"/></interface>
<interface type="hostdev"/><interface type="network"/>"""


def test_interfaces_with_a_tap_are_known_by_their_xml():
    nics = parse_description(a_domain(devices=INTERFACES), frozenset({0, 1})).nics
    assert [nic.kind for nic in nics if nic.has_tap] == ["bridge", "ethernet"]
    assert nics[0] == Nic("bridge", "tap1")
    assert [nic.device for nic in nics[2:]] == ["vhu1", "macvtap0", "", ""]
