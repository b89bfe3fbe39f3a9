# SPDX-License-Identifier: Apache-2.0
"""What users, operators and misfortune do to a lab, one operation at a time. Each raises one of
FAULTS where nobody takes it on, and waits for nothing but the answer.
"""

import math
import os
import random
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import keystoneauth1.exceptions
import openstack.exceptions

from testbed.lab import cloud, settings
from testbed.lab.errors import LabError
from tests.lab.hosts import HOSTS
from tests.lab.operators import vp_api
from vp_client.errors import VpError

FAULTS = (
    LabError,
    VpError,
    OSError,
    subprocess.SubprocessError,
    openstack.exceptions.SDKException,
    keystoneauth1.exceptions.ClientException,
)
MOST_SERVERS = 5
FROZEN_S = 6.0
CUT_OFF_S = 40.0
"""So long after a service was killed or frozen nobody expects answers of it."""
WORKS = ("work=chase:192", "work=stream:8192", "work=compute", "work=idle")
FLAVORS = {
    "t.chaos-capped": {"vp:cpu_floor": "20", "vp:isolation": "soft"},
    "t.chaos-permit": {"vp:llc_permit": "2000"},
    "t.chaos-critical": {"vp:class": "latency-critical", "vp:latency_target_ms": "20"},
    "t.chaos-plain": {},
}
LARGER = "t.chaos-larger"


class NothingToDo(LabError):
    """No server, overlay or action is there that this could be done to."""


class Storm:
    """The lab, what was made in it, and what is cut off now."""

    def __init__(
        self,
        admin: Any,
        servers: list[str],
        to_reboot: list[str],
        failed: dict[str, str],
        added: Mapping[Path, str],
    ) -> None:
        """`added`: to files of configuration."""
        self.admin = admin
        self._added = added
        self.vp = vp_api(admin)
        self.servers = servers
        """Ids of those that were made and not deleted."""
        self.to_reboot = to_reboot
        """Ids of those whose domains may be gone: their host lost power, or Nova was at them for
        too long."""
        self.failed = failed
        """What Nova says of those that it put into ERROR."""
        self._frozen: list[tuple[int, threading.Timer]] = []
        """Groups of processes, and who lets them go on."""
        self._cut_off_until_s: dict[str, float] = {}
        for name, specs in FLAVORS.items():
            cloud.put_flavor(admin, name, specs=specs)
        cloud.put_flavor(admin, LARGER, ram=128, specs={"vp:cpu_floor": "20"})

    def server(self, dice: random.Random, *statuses: str, flavor: str | None = None) -> Any:
        """One that Nova has no task for. Raises NothingToDo."""
        found = [
            one
            for one in self.admin.compute.servers()
            if one.id in self.servers
            and one.task_state is None
            and one.status in statuses
            and flavor in (None, one.flavor.original_name)
        ]
        if not found:
            raise NothingToDo(f"no {flavor or 'server'} is {' or '.join(statuses)}")
        return dice.choice(sorted(found, key=lambda one: str(one.id)))

    def overlays(self) -> list[Any]:
        """Those that were registered, by id: what a `vp:group` makes ends with its servers."""
        found = [one for one in self.vp.list_overlays() if not one["is_group"]]
        return sorted(found, key=lambda one: str(one["id"]))

    def rarest_flavors(self) -> list[str]:
        """Those with the fewest servers: each of them has operations of its own."""
        servers = Counter(one.flavor.original_name for one in self.admin.compute.servers())
        least = min(servers[name] for name in FLAVORS)
        return [name for name in sorted(FLAVORS) if servers[name] == least]

    def delete(self, server: Any) -> None:
        self.admin.compute.delete_server(server)
        if server.id in self.servers:
            self.servers.remove(server.id)

    def freeze(self, service: str) -> None:
        pid = cloud.service_pid(service)
        if pid is None:
            raise NothingToDo(f"{service} does not run")
        os.killpg(pid, signal.SIGSTOP)
        thaw = threading.Timer(FROZEN_S, _go_on, [pid])
        thaw.start()
        self._frozen.append((pid, thaw))

    def reconfigure(self) -> None:
        """`lab up` writes each configuration as it is at first."""
        for path, added in self._added.items():
            text = path.read_text()
            if added not in text:
                path.write_text(f"{text}\n{added}\n")

    def thaw(self) -> None:
        """All, at once."""
        for pid, timer in self._frozen:
            timer.cancel()
            _go_on(pid)
        self._frozen.clear()

    def cut_off(self, service: str, span_s: float = CUT_OFF_S) -> None:
        self._cut_off_until_s[service] = time.monotonic() + span_s

    def is_cut_off(self, service: str) -> bool:
        return time.monotonic() < self._cut_off_until_s.get(service, 0.0)


def _go_on(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGCONT)


Operation = Callable[[Storm, random.Random], None]
OPERATIONS: dict[str, Operation] = {}


def operation(call: Operation) -> Operation:
    OPERATIONS[call.__name__] = call
    return call


# Users


@operation
def create(storm: Storm, dice: random.Random) -> None:
    if len(storm.servers) >= MOST_SERVERS:
        delete(storm, dice)
    flavor, work = dice.choice(storm.rarest_flavors()), dice.choice(WORKS)
    name = f"chaos-{dice.randrange(10**6)}"
    storm.servers.append(cloud.boot(storm.admin, name, flavor, work, wait=False).id)


@operation
def delete(storm: Storm, dice: random.Random) -> None:
    storm.delete(storm.server(dice, "ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED", "ERROR"))


@operation
def pause(storm: Storm, dice: random.Random) -> None:
    storm.admin.compute.pause_server(storm.server(dice, "ACTIVE"))


@operation
def unpause(storm: Storm, dice: random.Random) -> None:
    storm.admin.compute.unpause_server(storm.server(dice, "PAUSED"))


@operation
def suspend(storm: Storm, dice: random.Random) -> None:
    storm.admin.compute.suspend_server(storm.server(dice, "ACTIVE"))


@operation
def resume(storm: Storm, dice: random.Random) -> None:
    storm.admin.compute.resume_server(storm.server(dice, "SUSPENDED"))


@operation
def reboot(storm: Storm, dice: random.Random) -> None:
    kind = dice.choice(("HARD", "SOFT"))
    storm.admin.compute.reboot_server(storm.server(dice, "ACTIVE", "SHUTOFF"), kind)


@operation
def resize(storm: Storm, dice: random.Random) -> None:
    storm.admin.compute.resize_server(storm.server(dice, "ACTIVE", "SHUTOFF"), LARGER)


@operation
def end_resize(storm: Storm, dice: random.Random) -> None:
    server = storm.server(dice, "VERIFY_RESIZE")
    if dice.random() < 0.5:
        storm.admin.compute.confirm_server_resize(server)
    else:
        storm.admin.compute.revert_server_resize(server)


@operation
def migrate(storm: Storm, dice: random.Random) -> None:
    server = storm.server(dice, "ACTIVE")
    storm.admin.compute.live_migrate_server(server, host=None, block_migration="auto")


@operation
def opt_out(storm: Storm, dice: random.Random) -> None:
    server = storm.server(dice, "ACTIVE", "PAUSED", "SHUTOFF")
    storm.vp.change_vp(server.id, opt_out=dice.random() < 0.5)


@operation
def report_latency(storm: Storm, dice: random.Random) -> None:
    server = storm.server(dice, "ACTIVE", flavor="t.chaos-critical")
    storm.vp.report_latency(server.id, 40.0 * dice.random(), dice.random())


@operation
def make_overlay(storm: Storm, dice: random.Random) -> None:
    servers = [storm.server(dice, "ACTIVE").id for _ in range(2)]
    storm.vp.create_overlay(f"o-{dice.randrange(10**6)}", sorted(set(servers)))


@operation
def delete_overlay(storm: Storm, dice: random.Random) -> None:
    overlays = storm.overlays()
    if not overlays:
        raise NothingToDo("no overlay is there")
    storm.vp.delete_overlay(dice.choice(overlays)["id"])


@operation
def call(storm: Storm, dice: random.Random) -> None:
    """Of an overlay that has servers; one is made where there is none."""
    overlays = [one for one in storm.overlays() if one["servers"]]
    if not overlays:
        make_overlay(storm, dice)
        raise NothingToDo("the new overlay's servers are not known yet")
    overlay = dice.choice(overlays)
    server = dice.choice(sorted(one["server_id"] for one in overlay["servers"]))
    direction = dice.choice(("up", "down"))
    body = dice.choice(
        (
            {"verb": "tune", "server_id": server, "direction": direction, "resource": "cpu"},
            {"verb": "tune", "server_id": server, "direction": direction, "resource": "io"},
            {"verb": "tune", "server_id": server, "direction": "down", "resource": "memory-size"},
            {"verb": "trigger", "lease_s": 1.0},
            {"verb": "borrow", "server_id": server, "cpus": 1, "lease_s": 10.0},
            {"verb": "release"},
        )
    )
    storm.vp.call_overlay(overlay["id"], body)


# Operators


@operation
def set_mode(storm: Storm, dice: random.Random) -> None:
    storm.vp.set_cloud_mode(dice.choice(("enforce", "enforce", "advise", "advise", "observe")))


@operation
def set_host_mode(storm: Storm, dice: random.Random) -> None:
    mode = dice.choice(("enforce", "advise", "observe", None, None, None))
    storm.vp.set_mode(dice.choice(HOSTS), mode)


@operation
def exempt(storm: Storm, dice: random.Random) -> None:
    server = storm.server(dice, "ACTIVE", "PAUSED", "SHUTOFF")
    storm.vp.change_vp(server.id, exempt=dice.random() < 0.5)


@operation
def accept(storm: Storm, dice: random.Random) -> None:
    """What the host has proposed last. Only a host in mode advise has its proposals accepted: where
    none is, the operator has one advise, and comes back."""
    advising = [one["name"] for one in storm.vp.list_hosts(mode="advise")]
    newest = storm.vp.list_actions(result="proposed", sort="at:desc")
    proposed = [one for one in newest if one["host"] in advising]
    if not advising:
        storm.vp.set_mode(dice.choice(HOSTS), "advise")
    if not proposed:
        raise NothingToDo("nothing is proposed by a host that advises")
    storm.vp.accept_action(proposed[0]["id"], proposed[0]["host"])


@operation
def release(storm: Storm, dice: random.Random) -> None:
    """By an operator on the host, whatever the agent does. A host that gave everything back
    observes until somebody has it act again."""
    host = dice.choice(HOSTS)
    cloud.shell(host, "vp-agent", "release", *dice.choice(((), ("--expired",))))
    storm.vp.set_mode(host, None)


# Misfortune


SERVICES = {
    "agent": "vp-agent@",
    "nova_compute": "nova-compute@",
    "libvirtd": "libvirtd@",
    "vp_scheduler": "vp-scheduler",
    "vp_api": "vp-api",
    "broker": "rabbitmq",
    "database": "mariadb",
}
"""With `@`: of one of the hosts."""


def _misfortune(name: str) -> None:
    def chosen(storm: Storm, dice: random.Random) -> str:
        service = SERVICES[name]
        if service.endswith("@"):
            service += dice.choice(HOSTS)
        storm.cut_off(service)
        return service

    def kill(storm: Storm, dice: random.Random) -> None:
        cloud.kill(chosen(storm, dice))

    def freeze(storm: Storm, dice: random.Random) -> None:
        storm.freeze(chosen(storm, dice))

    OPERATIONS[f"kill_{name}"] = kill
    OPERATIONS[f"freeze_{name}"] = freeze


for _name in SERVICES:
    _misfortune(_name)


@operation
def power_off(storm: Storm, dice: random.Random) -> None:
    lab, host = str(settings.LAB / "lab"), dice.choice(HOSTS)
    storm.cut_off(f"vp-agent@{host}", math.inf)
    storm.to_reboot += [
        one.id
        for one in storm.admin.compute.servers()
        if one.compute_host == host and one.id not in storm.to_reboot
    ]
    subprocess.run([lab, "power-off", host], check=True, capture_output=True)
    subprocess.run([lab, "up"], check=True, capture_output=True)
    storm.reconfigure()
    cloud.stop(f"vp-agent@{host}")
    cloud.start(f"vp-agent@{host}")
    storm.cut_off(f"vp-agent@{host}")
