# SPDX-License-Identifier: Apache-2.0
"""The agent as the installation guide installs it, beside Debian's libvirt, on two servers.

Its unit runs it as a user of its own. Servers are in scopes of systemd's, so that CPU weights go by
polkit and systemd. There are no counters: initial placement pins, an island caps, and an overlay
asks for a higher weight.
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nova_vp.core.types.knob import NO_QUOTA, CpuWeight, Quota, WeightUnit
from nova_vp.core.types.overlay import Overlay
from nova_vp.overlay_message import overlays_text
from tests.domain_xml import PROJECT_ID, nova_metadata, write_endless, write_halting
from tests.host_subjects import LibvirtSubject
from tests.overlay_agent import AgentMonitor
from tests.system_libvirt import FIRMWARE, SystemLibvirt, systemctl
from tests.waiting import wait_until
from vp_agent.drivers.cgroups import cpu_group, machine_group
from vp_agent.drivers.journal_entry import NAMESPACE
from vp_agent.loop.control_socket import NoAgent, RunFolder, ask

ROOT = Path(__file__).parents[2]
SHOP = "00000000-0000-4000-8000-00000000000a"
BOTH = frozenset({0, 1})
CAP_CORES = 0.6
"""Of both servers together."""
CONFIG = f"""\
[agent]
host = compute-17
mode = enforce
actuator = {{actuator}}
[policy]
controllers = overlays,initial_placement
[controller_initial_placement]
home_on_arrival = always
[islands]
layout = all: 0-1 capped {CAP_CORES}
"""
INSTALL = f"""
set -e
id nova-vp || useradd --system --home-dir /var/lib/nova-vp --shell /usr/sbin/nologin nova-vp
usermod --append --groups libvirt nova-vp
ln -sf {ROOT}/.venv/bin/vp-agent /usr/local/bin/
install -m 644 {ROOT}/etc/nova-vp/systemd/vp-agent.service /etc/systemd/system/
install -D -m 644 {ROOT}/etc/nova-vp/polkit/50-nova-vp.rules /etc/polkit-1/rules.d/50-nova-vp.rules
install -d -o root -g nova-vp -m 750 /etc/nova-vp
install -d -o nova-vp -g nova-vp /var/lib/nova-vp
ln -sfn /run/nova-vp /root/run
mkdir -p /run/systemd/system/vp-agent.service.d
printf '[Service]\\nTimeoutStartSec=1800\\nTimeoutStopSec=1800\\nWatchdogSec=1800\\n' \\
    >/run/systemd/system/vp-agent.service.d/emulated.conf
systemctl daemon-reload
"""
"""With time to start: an emulated machine imports for minutes."""
READY_WITHIN_S = 300.0
ACTS_WITHIN_S = 120.0


class Applied(NamedTuple):
    affinities: frozenset[frozenset[int]]
    quotas: frozenset[Quota]
    weight: CpuWeight


AS_NOVA_MADE_IT = Applied(
    frozenset({BOTH}), frozenset({NO_QUOTA}), CpuWeight(100, WeightUnit.WEIGHT)
)


class Servers:
    """`busy` uses all CPU time that it gets, `idle` none."""

    def __init__(self, host: SystemLibvirt) -> None:
        self.subject = LibvirtSubject(host)
        self.busy = self._boot(write_endless(FIRMWARE / "endless.bin"))
        self.idle = self._boot(write_halting(FIRMWARE / "halting.bin"))

    @property
    def both(self) -> tuple[str, str]:
        return self.busy, self.idle

    def _boot(self, firmware: Path) -> str:
        metadata = nova_metadata(extra_specs={"vp:cpu_floor": "10"})
        return self.subject.boot_xml(vcpus=1, metadata=metadata, firmware=firmware)

    def applied(self, uuid: str) -> Applied:
        return Applied(
            frozenset(self.subject.affinities(uuid)),
            frozenset(self.subject.quotas(uuid)),
            self.subject.weight(uuid),
        )

    def scope(self, uuid: str) -> str:
        return os.path.basename(machine_group(cpu_group(self.subject.tids(uuid)[0])).path)

    def is_placed_and_capped(self) -> bool:
        now = [self.applied(uuid) for uuid in self.both]
        places = {one.affinities for one in now}
        return (
            places == {frozenset({frozenset({0})}), frozenset({frozenset({1})})}
            and all(NO_QUOTA not in one.quotas for one in now)
            and sum(quota.cores for one in now for quota in one.quotas) <= CAP_CORES + 0.01
        )

    def has_journal(self, uuid: str) -> bool:
        return NAMESPACE in self.subject.live_xml(uuid)


@pytest.fixture(params=["kernel", "libvirt"])
def installed(request: pytest.FixtureRequest, libvirt_host: SystemLibvirt) -> Iterator[Servers]:
    subprocess.run(["sh", "-c", INSTALL], check=True)
    Path("/etc/nova-vp/nova-vp.conf").write_text(CONFIG.format(actuator=request.param))
    servers = Servers(libvirt_host)
    shop = Overlay(SHOP, "shop", PROJECT_ID, frozenset(servers.both))
    Path("/var/lib/nova-vp/overlays.json").write_text(overlays_text(1, (shop,)))
    yield servers
    systemctl("stop", "vp-agent.service")
    servers.subject.close()


def report() -> dict[str, Any]:
    """What the agent says; empty before its first tick."""
    try:
        return dict(ask(RunFolder("/run/nova-vp"), "status") or {})
    except NoAgent:
        return {}


def said_of(uuid: str) -> dict[str, Any]:
    return next((dict(vp) for vp in report().get("vps", ()) if vp["uuid"] == uuid), {})


def show(unit: str, name: str) -> str:
    argv = ["systemctl", "show", "--value", "--property", name, unit]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout.strip()


def journal_text() -> str:
    argv = ["journalctl", "--no-pager", "--unit", "vp-agent", "--lines", "60"]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def test_two_servers_are_placed_capped_weighed_measured_and_given_back(installed: Servers):
    busy, idle = installed.both
    assert {installed.applied(uuid) for uuid in installed.both} == {AS_NOVA_MADE_IT}
    systemctl("start", "vp-agent.service")
    wait_until(installed.is_placed_and_capped, "placed and capped", ACTS_WITHIN_S)

    raise_weight(busy)
    heavy = installed.applied(busy).weight
    assert heavy == CpuWeight(125, WeightUnit.WEIGHT)
    assert show(installed.scope(busy), "CPUWeight") == "125"
    installed.subject.reload_host()
    assert installed.applied(busy).weight == heavy

    wait_until(
        lambda: (said_of(busy).get("cpu_use") or {}).get("throttled_ratio_ours", 0) > 0.2,
        "the agent sees that its cap throttles the busy one",
        ACTS_WITHIN_S,
    )
    assert said_of(idle)["cpu_use"]["throttled_ratio_ours"] == 0
    assert [said_of(uuid)["unmanaged"] for uuid in installed.both] == [None, None]

    assert show("vp-agent", "User") == "nova-vp"
    systemctl("stop", "vp-agent.service")
    assert show("vp-agent", "Result") == "success", journal_text()
    assert {installed.applied(uuid) for uuid in installed.both} == {AS_NOVA_MADE_IT}
    assert not any(installed.has_journal(uuid) for uuid in installed.both)


def raise_weight(uuid: str) -> None:
    monitor = wait_until(connected, "the agent takes calls", READY_WITHIN_S)
    try:
        answer = monitor.ask(overlay_id=SHOP, verb="tune", server_id=uuid, direction="up")
        assert "error" not in answer, answer
        assert not answer["nack"], answer
    finally:
        monitor.close()


def connected() -> AgentMonitor | None:
    try:
        return AgentMonitor(Path("/root"))
    except OSError:
        return None


@pytest.fixture
def _not_restarted() -> Iterator[None]:
    drop_in = Path("/run/systemd/system/vp-agent.service.d/once.conf")
    drop_in.write_text("[Service]\nRestart=no\n")
    yield
    drop_in.unlink()
    systemctl("daemon-reload")
    systemctl("reset-failed", "vp-agent.service")


@pytest.mark.usefixtures("_not_restarted")
def test_what_a_killed_agent_left_goes_with_its_unit(installed: Servers):
    systemctl("start", "vp-agent.service")
    wait_until(installed.is_placed_and_capped, "placed and capped", ACTS_WITHIN_S)
    systemctl("kill", "--kill-whom=main", "--signal=KILL", "vp-agent.service")
    wait_until(
        lambda: show("vp-agent", "ActiveState") == "failed", "the unit has ended", ACTS_WITHIN_S
    )
    assert {installed.applied(uuid) for uuid in installed.both} == {AS_NOVA_MADE_IT}
    assert not any(installed.has_journal(uuid) for uuid in installed.both)
