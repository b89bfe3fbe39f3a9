# SPDX-License-Identifier: Apache-2.0
"""`lab up` and `lab down`: the order of things. Every step first looks whether there is anything to
do, so `up` on a lab that is up repairs it, and either command works after the other was killed.
"""

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import suppress
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import requests
from cryptography.fernet import Fernet
from keystoneauth1.exceptions import ClientException
from openstack.compute.v2.service import Service as NovaService
from openstack.connection import Connection

from testbed.lab import (
    cgroups,
    cloud,
    cloud_resources,
    controller,
    credentials,
    database,
    host,
    nova,
    processes,
    settings,
)
from testbed.lab.config import common_values
from testbed.lab.errors import LabError
from testbed.lab.host import Host
from testbed.lab.processes import CONTROLLER, Address, run
from testbed.lab.waiting import wait_for

BRIDGE_PATH = Path("/sys/class/net") / settings.BRIDGE
IMAGE_FILE = settings.CACHE / "guest.qcow2"
GUEST_BUILD = settings.LAB / "guest" / "build"
VPMU = settings.ROOT / "testbed" / "vpmu"
BROKER_POLICIES = settings.ROOT / "etc" / "nova-vp" / "rabbitmq-policies.json"
HAS_POLICIES = settings.RUN / "rabbitmq-policies.complete"
HORIZON = Address(controller.HORIZON, CONTROLLER)
HORIZON_BUILD = settings.ROOT / "tools" / "make-dashboard-venv"
HOSTS_FILE = settings.RUN / "hosts.json"
SERVICE_DEADLINE_S = 120


class Progress:
    """Lines with the seconds since the command began."""

    def __init__(self) -> None:
        self._began_at = time.monotonic()

    def __call__(self, text: str) -> None:
        print(f"{time.monotonic() - self._began_at:6.1f} s  {text}", flush=True)


def up(
    wanted: list[Host],
    progress: Progress,
    environment: Path | None = None,
    *,
    with_horizon: bool = False,
) -> None:
    """`environment`: the one that has Nova; None for what this lab has, at first the project's.
    A lab that has Horizon keeps it.
    """
    _check_machine()
    if with_horizon:
        _make_horizon()
    _begin()
    _thaw()
    its_nova = nova.choose(environment)
    _ensure_bridge()
    wanted = _merge_hosts(wanted)
    values = common_values(its_nova)
    control_values = controller.controller_values(values)
    controller.render_configs(control_values)
    _ensure_keys()
    processes.ensure_controller()
    _ensure(controller.infrastructure())
    _build(progress)
    database.ensure_running()
    progress("database up")
    _ensure_schemas(progress)
    _wait_for_broker()
    credentials.ensure(wanted)
    progress("accounts and keys in place")
    _ensure(controller.identity())
    _ensure(controller.compute())
    for one in wanted:
        host.ensure(one, values)
    progress(f"hosts started: {', '.join(one.name for one in wanted)}")
    _wait_for_apis()
    progress("APIs answer")
    admin = cloud.connect()
    cloud_resources.ensure_flavors(admin)
    cloud_resources.ensure_image(admin, IMAGE_FILE)
    progress("image and flavors in place")
    _wait_for_nova(admin, wanted)
    progress("Nova sees its hosts")
    _ensure_product()
    if with_horizon or processes.is_kept(HORIZON):
        _ensure(controller.dashboard())
        _wait_http(HORIZON.name, settings.HORIZON_PORT)
        progress(
            f"Horizon answers at {settings.HORIZON_URL}/ for admin, tenant-a and tenant-b, "
            f"password {settings.PASSWORD}"
        )
    progress(
        f"lab is up with Nova {its_nova.release}; `. <(testbed/lab/lab env)` gives an admin shell"
    )


def down(progress: Progress) -> None:
    """End every process, then take away what lies outside our folder. Logs stay. What a checkout
    left that is gone itself is ended from any other.
    """
    if Path(_owner()).exists():
        _check_owner()
    pids = cgroups.read_pids()
    cgroups.kill_all()
    wait_for(
        lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), "reaping", deadline_s=60
    )
    for cable in Path("/sys/class/net").glob("nova-vp[0-9]*"):
        host.unplug(cable.name.removeprefix("nova-"))
    if BRIDGE_PATH.exists():
        run("ip", "link", "delete", settings.BRIDGE)
    cgroups.remove()
    shutil.rmtree(settings.RUN, ignore_errors=True)
    progress(f"lab is down ({len(pids)} processes ended; logs stay in {settings.LOG})")


def remove(name: str, progress: Progress) -> None:
    """Take one host out of the cloud for good: Nova and the next `up` forget it."""
    require_host(name)
    admin = cloud.connect()
    if any(one.compute_host == name for one in admin.compute.servers(all_projects=True)):
        raise LabError(f"{name} has servers: delete them first (`openstack server list`)")
    host.power_off(name)
    for service in admin.compute.services(host=name):
        admin.compute.delete_service(service)
    database.manage("vp-manage", "nova-vp.conf", "credentials", "retire", f"vp-agent/{name}")
    for folder in (settings.RUN / name, credentials.of_host(name)):
        shutil.rmtree(folder, ignore_errors=True)
    _write_hosts([one for one in read_hosts() if one.name != name])
    progress(f"{name} is removed")


def require_host(name: str) -> None:
    known = [one.name for one in read_hosts()]
    if name not in known:
        raise LabError(f"no host {name}; there are: {', '.join(known) or 'none'}")


def is_up() -> bool:
    return BRIDGE_PATH.exists() and settings.RUN.exists()


def read_hosts() -> list[Host]:
    """The hosts this lab was brought up with."""
    with suppress(OSError):
        return [Host(**entry) for entry in json.loads(HOSTS_FILE.read_text())]
    return []


def _merge_hosts(wanted: list[Host]) -> list[Host]:
    """A host that is there keeps its topology; hosts beyond those asked for are left alone."""
    present = {one.name: one for one in read_hosts()}
    for one in wanted:
        if one.name in present and present[one.name] != one and processes.root_pid(one.name):
            raise LabError(
                f"{one.name} is up with cells {present[one.name].layout}, not {one.layout}; "
                "a host keeps its topology: run `lab down` first"
            )
    merged = list((present | {one.name: one for one in wanted}).values())
    _write_hosts(merged)
    return merged


def _write_hosts(hosts: list[Host]) -> None:
    fresh = HOSTS_FILE.with_suffix(".new")
    fresh.write_text(json.dumps([asdict(one) for one in hosts]))
    fresh.replace(HOSTS_FILE)


def _check_machine() -> None:
    if os.geteuid() != 0:
        raise LabError("the lab makes namespaces and cgroups: run it as root (sudo)")
    for program in ("libvirtd", "mysqld", "memcached", "bindfs", "genisoimage", "unshare"):
        if shutil.which(program, path="/usr/sbin:/usr/bin:/sbin:/bin") is None:
            raise LabError(f"{program} is missing: run tools/install-debian-packages")
    cgroups.read_hierarchies()


def _make_horizon() -> None:
    """With the caller's own environment, which says how package registries are reached."""
    if subprocess.run([str(HORIZON_BUILD)]).returncode:
        raise LabError(f"{HORIZON_BUILD} failed, as it says above; it needs package registries")


def _begin() -> None:
    """Without bridge there is no lab: what an earlier one left (a reboot, say) goes first."""
    if not BRIDGE_PATH.exists():
        cgroups.kill_all()
        cgroups.remove()
        shutil.rmtree(settings.RUN, ignore_errors=True)
        shutil.rmtree(settings.LOG, ignore_errors=True)
    else:
        _check_owner()
        if cgroups.tracker("commands").exists():
            cgroups.kill_all("commands")  # of an `up` that was killed
    settings.RUN.mkdir(parents=True, exist_ok=True)
    settings.LOG.mkdir(exist_ok=True)


def _owner() -> str:
    """The checkout whose lab is up, ours where there is none."""
    with suppress(FileNotFoundError):
        return (BRIDGE_PATH / "ifalias").read_text().strip() or str(settings.ROOT)
    return str(settings.ROOT)


def _check_owner() -> None:
    owner = _owner()
    if owner != str(settings.ROOT):
        raise LabError(f"a lab of {owner} is up; run `{owner}/testbed/lab/lab down` first")


def _thaw() -> None:
    """What a test that was ended left stopped goes on."""
    for pid in cgroups.read_pids():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _ensure_bridge() -> None:
    if not BRIDGE_PATH.exists():
        run("ip", "link", "add", settings.BRIDGE, "type", "bridge")
    # Left alone it is that of some host's cable, and hosts lose the controller when that one goes.
    run("ip", "link", "set", settings.BRIDGE, "address", settings.BRIDGE_MAC)
    run("ip", "link", "set", settings.BRIDGE, "alias", str(settings.ROOT))
    address = f"{settings.CONTROLLER_IP}/{settings.PREFIX_LENGTH}"
    run("ip", "address", "replace", address, "dev", settings.BRIDGE)
    run("ip", "link", "set", settings.BRIDGE, "up")


def _ensure_keys() -> None:
    """Keystone's own keys, made once per lab."""
    for kind in ("fernet", "credential"):
        folder = settings.RUN / "keystone" / kind
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for name in ("0", "1"):
            if not (folder / name).exists():
                fresh = folder / f".{name}"
                fresh.write_bytes(Fernet.generate_key())
                fresh.replace(folder / name)


def _ensure(services: list[processes.Service]) -> None:
    for service in services:
        processes.ensure_service(CONTROLLER, service)


def _build(progress: Progress) -> None:
    """The guest image and the software PMU; both builds do nothing when nothing changed."""
    run(str(GUEST_BUILD), log=processes.log_path(CONTROLLER, "guest-build"))
    run("make", "-C", str(VPMU), log=processes.log_path(CONTROLLER, "vpmu-build"))
    progress("guest image and software PMU built")


def _ensure_schemas(progress: Progress) -> None:
    if database.is_filled():
        return
    database.create_empty()
    if database.dump_path().exists():
        database.load_dump()
        progress("schemas and catalog loaded from the cached dump")
    else:
        progress("no cached schemas that fit: running all migrations (once)")
        database.migrate_all()
        _ensure(controller.identity())
        _wait_http("keystone", settings.KEYSTONE_PORT)
        cloud_resources.fill_identity(cloud.connect())
        database.save_dump()
        progress("schemas and catalog made, dump cached")
    database.mark_filled()


def _wait_for_broker() -> None:
    broker = Address("rabbitmq", CONTROLLER)
    processes.wait_until_ready(
        broker,
        lambda: database.accepts(settings.CONTROLLER_IP, settings.RABBIT_PORT),
        deadline_s=SERVICE_DEADLINE_S,
    )


def _wait_for_apis() -> None:
    for name, port in (
        ("keystone", settings.KEYSTONE_PORT),
        ("placement", settings.PLACEMENT_PORT),
        ("glance", settings.GLANCE_PORT),
        ("network", settings.NETWORK_STUB_PORT),
        ("nova-api", settings.NOVA_PORT),
    ):
        _wait_http(name, port)


def _ensure_product() -> None:
    """Last: a mistake in our own code leaves the rest of the cloud to look at it with."""
    services = controller.product()
    if services:
        _ensure_broker_policies()
    _ensure(services)
    if any(service.name == "vp-api" for service in services):
        _wait_http("vp-api", settings.VP_API_PORT)


def _ensure_broker_policies() -> None:
    """The bounds on our queues that operators are told to load, once per broker."""
    if not HAS_POLICIES.exists():
        controller.rabbitmqctl("import_definitions", str(BROKER_POLICIES))
        HAS_POLICIES.touch()


def _wait_http(name: str, port: int) -> None:
    def answers() -> bool:
        with suppress(requests.RequestException):
            requests.get(f"http://{settings.CONTROLLER_IP}:{port}/", timeout=10)
            return True
        return False

    processes.wait_until_ready(Address(name, CONTROLLER), answers, deadline_s=SERVICE_DEADLINE_S)


def _wait_for_nova(admin: Connection, hosts: list[Host]) -> None:
    """The scheduler first: it maps new hosts to the cell, and Nova lists only mapped ones."""
    for name in ("nova-conductor", "nova-scheduler"):
        _wait_for_report(admin, Address(name, CONTROLLER), "controller")
    for one in hosts:
        compute = Address("nova-compute", one.name)
        _wait_for_report(admin, compute, one.name)
        processes.wait_until_ready(
            compute, lambda one=one: _is_mapped(admin, one), deadline_s=SERVICE_DEADLINE_S
        )


def _is_mapped(admin: Connection, one: Host) -> bool:
    with suppress(ClientException):
        return any(h.name == one.name for h in admin.compute.hypervisors(details=False))
    return False


def _wait_for_report(admin: Connection, address: Address, host_name: str) -> None:
    """Until the process that runs now has reported: of a killed one, Nova believes the best for
    half a minute.
    """

    def has_reported() -> bool:
        with suppress(ClientException):
            services = admin.compute.services(binary=address.name, host=host_name)
            return any(_reported_at(one) >= processes.started_at(address) for one in services)
        return False

    processes.wait_until_ready(address, has_reported, deadline_s=SERVICE_DEADLINE_S)


def _reported_at(service: NovaService) -> float:
    text = service.updated_at or service.to_dict().get("created_at")
    if service.state != "up" or text is None:
        return 0.0
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() + 1.0  # whole seconds
