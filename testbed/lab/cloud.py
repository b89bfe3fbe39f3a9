# SPDX-License-Identifier: Apache-2.0
"""What tests, demo and benchmarks do with a lab that is up: servers through openstacksdk, commands
inside hosts, single processes stopped and started. No assertions and no printing here.
"""

import base64
import json
import signal
import subprocess
from typing import Any

import openstack
from openstack.compute.v2.server import Server
from openstack.connection import Connection

from testbed.lab import cgroups, cloud_resources, controller, processes, settings
from testbed.lab.errors import LabError
from testbed.lab.processes import Address
from testbed.lab.waiting import wait_for

__all__ = [
    "Address",
    "LabError",
    "boot",
    "connect",
    "console",
    "delete",
    "host_pid",
    "hosts",
    "kill",
    "live_migrate",
    "placement_reason",
    "put_flavor",
    "queues",
    "server_host",
    "service_pid",
    "shell",
    "start",
    "stop",
    "wait_for",
]

BOOT_DEADLINE_S = 120
MIGRATION_DEADLINE_S = 120


def connect(user: str = "admin") -> Connection:
    """As admin, tenant-a or tenant-b, each in the project of the same name."""
    return openstack.connect(
        load_yaml_config=False,
        load_envvars=False,
        auth={
            "auth_url": settings.KEYSTONE_URL,
            "username": user,
            "password": settings.PASSWORD,
            "project_name": user,
            "user_domain_id": "default",
            "project_domain_id": "default",
        },
        region_name=settings.REGION,
        compute_default_microversion=settings.COMPUTE_MICROVERSION,
        app_name="nova-vp-lab",
    )


def put_flavor(
    cloud: Connection,
    name: str,
    *,
    vcpus: int = 1,
    ram: int = 96,
    specs: dict[str, str] | None = None,
) -> str:
    """A flavor made anew with these extra specs, checked by Nova's validators (2.86); its id."""
    if present := cloud.compute.find_flavor(name):
        cloud.compute.delete_flavor(present)
    flavor = cloud.compute.create_flavor(name=name, id=name, vcpus=vcpus, ram=ram, disk=1)
    if specs:
        response = cloud.compute.post(
            f"/flavors/{flavor.id}/os-extra_specs",
            json={"extra_specs": specs},
            microversion=settings.COMPUTE_MICROVERSION,
        )
        if response.status_code != 200:
            raise LabError(f"flavor {name}: {response.status_code} {response.text}")
    return flavor.id


def boot(
    cloud: Connection,
    name: str,
    flavor: str = "vp.tiny",
    user_data: str = "",
    *,
    host: str | None = None,
    address: str | None = None,
    wait: bool = True,
    **options: Any,
) -> Server:
    """A server, ACTIVE unless wait=False; `user_data` lines reach the guest by config drive.

    `host` asks for a host by name (admin only, the scheduler's filters still judge it). With
    `address` it has a port, and the guest takes this address. Raises LabError with Nova's own words
    when the server ends in ERROR.
    """
    if host is not None:
        options["host"] = host
    networks: Any = "none"
    if address is not None:
        networks = [{"uuid": settings.GUEST_NETWORK_ID, "fixed_ip": address}]
        user_data = f"address={address}/{settings.PREFIX_LENGTH}\n{user_data}"
    server = cloud.compute.create_server(
        name=name,
        flavor_id=flavor,
        image_id=cloud.image.find_image(cloud_resources.IMAGE).id,
        networks=networks,
        config_drive=True,
        user_data=base64.b64encode(user_data.encode()).decode(),
        **options,
    )
    return _wait_for_active(cloud, server) if wait else server


def _wait_for_active(cloud: Connection, server: Server) -> Server:
    def settled() -> Server | None:
        current = cloud.compute.get_server(server.id)
        return current if current.status in ("ACTIVE", "ERROR") else None

    final = wait_for(settled, f"{server.name} to boot", deadline_s=BOOT_DEADLINE_S, interval_s=0.2)
    if final.status == "ERROR":
        reason = (final.fault or {}).get("message", "no reason given")
        raise LabError(f"server {server.name} failed: {reason}")
    return final


def console(cloud: Connection, server: Server, lines: int | None = None) -> str:
    """What the guest has printed since its boot or last migration (the last `lines` of it)."""
    return cloud.compute.get_server_console_output(server, length=lines)["output"] or ""


def server_host(cloud: Connection, server: Server) -> str:
    return cloud.compute.get_server(server.id).compute_host


def placement_reason(server_id: str) -> str:
    """What our filter and weigher said of each host when a server was placed, in their words."""
    log = processes.log_path(processes.CONTROLLER, "nova-scheduler").read_text()
    mark = f"server {server_id} ("
    told = [line.partition(mark)[2] for line in log.splitlines() if mark in line]
    return " | ".join(text.partition("): ")[2] for text in told) or "nothing was said"


def delete(cloud: Connection, *servers: Server) -> None:
    for server in servers:
        cloud.compute.delete_server(server, ignore_missing=True)
    for server in servers:
        wait_for(
            lambda server=server: cloud.compute.find_server(server.id) is None,
            f"{server.name} to be deleted",
            deadline_s=120,
        )


def live_migrate(cloud: Connection, server: Server, host: str | None = None) -> str:
    """To `host`, or where the scheduler likes; the host it runs on afterwards.

    Raises LabError when the migration fails and the server stays.
    """
    source = server_host(cloud, server)
    cloud.compute.live_migrate_server(server, host=host, block_migration="auto")

    def settled() -> Server | None:
        current = cloud.compute.get_server(server.id)
        is_moving = current.task_state is not None or current.status == "MIGRATING"
        return None if is_moving else current

    what = f"{server.name} to migrate"
    final = wait_for(settled, what, deadline_s=MIGRATION_DEADLINE_S, interval_s=0.2)
    if final.compute_host == source or final.status != "ACTIVE":
        raise LabError(
            f"{server.name} is {final.status} on {final.compute_host} after its live migration; "
            f"see {processes.log_path(source, 'nova-compute')}"
        )
    return final.compute_host


def hosts() -> list[str]:
    """Names of the hosts that are up."""
    names = (path.name for path in settings.RUN.glob("vp[0-9]*"))
    return sorted((n for n in names if processes.supervisor_pid(n)), key=lambda n: int(n[2:]))


def host_pid(host: str) -> int:
    """Pid 1 of a virtual host, as seen from outside."""
    pid = processes.supervisor_pid(host)
    if pid is None:
        raise LabError(
            f"no host {host}; running: {', '.join(hosts()) or 'none'} (see `lab status`)"
        )
    return pid


def shell_argv(host: str, *argv: str) -> list[str]:
    """Enter a host's cgroups too, so that nothing started inside outlives it."""
    namespaces = ("--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup")
    enter = ["nsenter", "--target", str(host_pid(host)), *namespaces, "--root", "--wd=/", "--"]
    groups = cgroups.members(cgroups.make_host_groups(host))
    return processes.entering(groups, [*enter, *argv])


def shell(
    host: str, *argv: str, check: bool = True, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    """Run a command inside a host."""
    return subprocess.run(
        shell_argv(host, *argv),
        check=check,
        text=True,
        capture_output=True,
        timeout=timeout_s,
        env=settings.base_environment()
        | {"HOME": "/root"}
        | processes.read_shell_environment(host),
    )


def stop(service: str, number: signal.Signals = signal.SIGTERM) -> None:
    """End a service such as `vp-scheduler` or `nova-compute@vp1` until `start`."""
    processes.stop(Address.parse(service), number)


def start(service: str) -> None:
    processes.start(Address.parse(service))


def kill(service: str) -> None:
    """SIGKILL it; the supervisor starts it again about a second later."""
    processes.kill(Address.parse(service))


def service_pid(service: str) -> int | None:
    return processes.service_pid(Address.parse(service))


def queues() -> dict[str, int]:
    """Messages waiting in each queue of the broker."""
    text = controller.rabbitmqctl("-q", "list_queues", "name", "messages", "--formatter", "json")
    return {row["name"]: row["messages"] for row in json.loads(text)}
