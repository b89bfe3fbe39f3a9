# SPDX-License-Identifier: Apache-2.0
"""Monitors on the host: the operator's lines, and how what they want becomes calls."""

import logging
from dataclasses import replace
from typing import Any

import pytest
from oslo_config import cfg

from nova_vp.core.types.cpu_time import CpuUse
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.overlay import Call, CallAnswer, CallResource, Nack, Overlay, Verb
from nova_vp.monitors.base import Wanted
from nova_vp.monitors.utilisation import idle_cores, load_by_cpu
from tests.decisions import a_decision, a_guest, a_view
from tests.domain_xml import a_domain
from tests.waiting import wait_until
from vp_agent.drivers.domain_xml import parse_description
from vp_agent.drivers.nics import Nic
from vp_agent.loop.monitor_calls import MonitorCall
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
    server = ""

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
    def __init__(self, monitor: Any = None) -> None:
        self.calls: list[Call] = []
        self.overlays = OVERLAYS
        self.decision: Decision | None = None
        self.monitor = monitor or Scripted()
        self.monitors = Monitors(
            [("scripted", self.monitor)],
            lambda: self.overlays,
            lambda: {WEB: (Nic("bridge", "tap0"),)},
            lambda: self.decision,
            self._answer,
        )

    def _answer(self, asked: MonitorCall) -> CallAnswer:
        call = asked.call
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


def test_a_call_names_the_resource_that_the_monitor_wants():
    host = Host()
    host.monitor.wants = [Wanted(Verb.TUNE, WEB), Wanted(Verb.TUNE, WEB, resource=CallResource.IO)]
    host.monitors.look(host.monitor)
    assert [call.resource for call in host.calls] == [CallResource.CPU, CallResource.IO]


def test_a_server_of_no_overlay_is_not_called_for():
    host = Host()
    host.monitor.wants = [Wanted(Verb.TRIGGER, OTHER)]
    host.monitors.look(host.monitor)
    assert host.calls == host.monitor.answers == []


def test_one_that_watches_a_server_calls_for_its_overlay_wherever_the_others_are():
    host = Host()
    host.monitor.server = WEB
    host.monitor.wants = [Wanted(Verb.TUNE, OTHER), Wanted(Verb.TUNE, MILL)]
    host.monitors.look(host.monitor)
    assert [(call.overlay_id, call.guest_uuid) for call in host.calls] == [
        (SHOP, OTHER),
        (MILLS, MILL),
    ]
    host.monitor.server, host.calls = OTHER, []
    host.monitors.look(host.monitor)
    assert [call.guest_uuid for call in host.calls] == [MILL], "the watched one is in no overlay"


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
        host.monitor.problems = {WEB: "another"}
        wait_until(lambda: len(caplog.records) == 2, "another problem is told")
        assert caplog.records[1].message == f"vp={WEB} monitor scripted: another"
        host.monitor.fault = RuntimeError("soup")
        wait_until(lambda: len(caplog.records) == 3, "the fault is told")
        assert caplog.records[2].message == "monitor scripted: RuntimeError: soup"
        before = len(host.monitor.seen)
        wait_until(lambda: len(host.monitor.seen) > before, "it looks on")
        host.monitor.fault = None
        wait_until(lambda: len(caplog.records) == 4, "what ended and came back is told again")
        assert caplog.records[3].message == f"vp={WEB} monitor scripted: another"
        host.monitors.close()
        wait_until(lambda: host.monitor.is_closed, "it is closed")


CLASSES = f"class.a=x servers.a={WEB} class.b=y servers.b={MILL}"


def sampled(at_s: float, **waited_cores: float) -> Decision:
    """Two servers on CPUs 0 to 3, of which each runs on one core."""
    views = [
        a_view(
            guest=a_guest(uuid=uuid, placement=frozenset(range(4))),
            cpu_use=CpuUse(at_s, 5, ran_cores=1.0, run_delay_cores=waited_cores.get(name, 0.0)),
        )
        for name, uuid in (("web", WEB), ("other", OTHER))
    ]
    return a_decision(*views, at_s=at_s)


def test_a_server_of_an_overlay_that_waits_borrows_and_gives_back_what_it_leaves_idle():
    [(_, monitor)] = open_monitors(["cpu-waiting samples=2"])
    host = Host(monitor)

    def look(at_s: float, **waited_cores: float) -> list[tuple[Verb, str]]:
        host.calls, host.decision = [], sampled(at_s, **waited_cores)
        assert host.monitors.look(monitor) == {}
        return [(call.verb, call.guest_uuid) for call in host.calls]

    assert look(1.0, web=1.0, other=1.0) == []
    assert look(1.0, web=1.0, other=1.0) == [], "it is the same sample"
    assert look(2.0, web=1.0, other=1.0) == [(Verb.BORROW, WEB)]
    assert look(3.0) == []
    assert look(4.0) == [(Verb.RELEASE, WEB)], "two of its four CPUs are idle"


@pytest.mark.parametrize(
    ("target", "unit", "borrows"),
    [
        (0.1, "waiting_ratio", True),
        (0.3, "waiting_ratio", False),
        (0.1, "requests/s", False),
        (None, "waiting_ratio", False),
    ],
)
def test_the_target_of_its_overlay_alone_changes_what_is_called(target, unit, borrows):
    """It waits for a sixth of what it wants; the monitor's own limit is a fifth."""
    [(_, monitor)] = open_monitors(["cpu-waiting samples=1"])
    host = Host(monitor)
    host.overlays = {SHOP: OVERLAYS[SHOP]._replace(target=target, target_unit=unit)}
    host.decision = sampled(1.0, web=0.2)
    assert host.monitors.look(monitor) == {}
    assert [call.verb for call in host.calls] == [Verb.BORROW] * borrows


def test_a_server_that_ended_and_came_back_waits_anew():
    [(_, monitor)] = open_monitors(["cpu-waiting samples=2"])
    host = Host(monitor)
    host.decision = sampled(1.0, web=1.0)
    host.monitors.look(monitor)
    host.decision = replace(host.decision, at_s=2.0, vps=())
    host.monitors.look(monitor)
    host.decision = sampled(3.0, web=1.0)
    host.monitors.look(monitor)
    assert host.calls == []


def test_a_host_that_reads_no_cpu_times_says_so():
    [(_, monitor)] = open_monitors(["cpu-waiting"])
    host = Host(monitor)
    assert host.monitors.look(monitor) == {}, "there was no sample yet"
    host.decision = a_decision(a_view(guest=a_guest(uuid=WEB), cpu_use=None))
    assert "[agent] cpu_times" in host.monitors.look(monitor)[WEB]


def test_load_is_spread_over_the_cpus_that_servers_may_use():
    views = [
        a_view(guest=a_guest(1, placement=frozenset({0, 1})), cpu_use=CpuUse(1.0, 5, 1.0)),
        a_view(guest=a_guest(2, placement=frozenset({1})), cpu_use=CpuUse(1.0, 5, 1.0)),
        a_view(guest=a_guest(3, placement=frozenset({2})), cpu_use=None),
    ]
    load = load_by_cpu(views)
    assert load == {0: 0.5, 1: 1.5}
    assert idle_cores(load, {0, 1, 2}) == 1.5


WRONG = {
    "=": "write the name of a monitor",
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


def test_an_option_without_a_value_is_no_monitor() -> None:
    assert open_monitors([""]) == []


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
