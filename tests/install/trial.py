# SPDX-License-Identifier: Apache-2.0
"""What the agent's units do on the compute host that the guide made: beside libvirt, with systemd.

No counters are needed: with the controller `latency` weights and caps follow from flavors alone.
"""

from collections.abc import Callable

from testbed.lab.waiting import wait_for
from tests.domain_xml import a_domain, nova_metadata
from tests.install.machine import Machine

SERVERS = {"instance-00000001": "latency-critical", "instance-00000002": "best-effort"}
FOLDER = "/sys/fs/cgroup{,/cpu}/machine.slice/machine-qemu*.scope"
OLD_HEARTBEAT_S = 115.0
"""A lease of a minute, ten seconds more, and a look every five. After 120 the watchdog acts."""
WATCHDOG_S = 180.0


class Trial:
    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def make(self) -> None:
        """Raises AssertionError and LabError."""
        self._start_servers()
        before = self._values()
        self._say("echo '[policy]' >>/etc/nova-vp/nova-vp.conf")
        self._say("echo 'controllers = vp,latency' >>/etc/nova-vp/nova-vp.conf")
        self._say("systemctl restart vp-agent && vp-agent mode enforce")
        self._wait(lambda: self._is_applied(before), "weights and a cap", 30.0)
        agent = self._show("MainPID")
        self._say(f"kill -STOP {agent}")
        self._wait(lambda: self._values() == before, "the release timer's undo", OLD_HEARTBEAT_S)
        assert self._show("MainPID") == agent, "the watchdog was quicker than the release timer"
        self._wait(lambda: self._show("NRestarts") == "1", "the watchdog", WATCHDOG_S)
        self._wait(lambda: self._is_applied(before), "weights and a cap again", WATCHDOG_S)
        self._say("systemctl stop vp-agent")
        assert self._values() == before, "a stop left something applied"
        self._say("systemctl start vp-agent && systemctl is-active vp-agent")
        for name in SERVERS:
            self._say(f"virsh destroy {name}")

    def _start_servers(self) -> None:
        for name, kind in SERVERS.items():
            metadata = nova_metadata(name, extra_specs={"vp:class": kind})
            xml = a_domain(name, vcpus=1, cpuset=None, metadata=metadata)
            self._machine.write(f"/root/{name}.xml", xml)
            self._say(f"virsh create /root/{name}.xml")

    def _is_applied(self, before: list[str]) -> bool:
        """Both weights and the quota of a vCPU."""
        return len(set(self._values()) - set(before)) == 3

    def _values(self) -> list[str]:
        """Weights of the scopes, and quotas of vCPUs."""
        files = "cpu.shares cpu.weight libvirt/vcpu0/cpu.cfs_quota_us libvirt/vcpu0/cpu.max"
        paths = " ".join(f"{FOLDER}/{file}" for file in files.split())
        return self._machine.run(f"grep -Hs . {paths}").stdout.splitlines()

    def _show(self, field: str) -> str:
        return self._say(f"systemctl show --value --property {field} vp-agent").strip()

    def _say(self, command: str) -> str:
        done = self._machine.run(command)
        assert done.returncode == 0, f"{command}\n{done.stdout}"
        return done.stdout

    def _wait(self, condition: Callable[[], bool], what: str, deadline_s: float) -> None:
        print(f"{self._machine.name}: waiting for {what}", flush=True)
        wait_for(condition, what, deadline_s=deadline_s, interval_s=1.0)
