# SPDX-License-Identifier: Apache-2.0
"""What operators and tenants do to the lab from outside: the CLI, the API, configuration files."""

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from keystoneauth1.adapter import Adapter

from testbed.lab import cloud, settings
from tests.lab.hosts import set_mode
from vp_client.client import Client

CONTROLLER_CONF = settings.ETC / "nova-vp.conf"
WITH_OVERLAYS = "[policy]\ncontrollers = initial_placement,rebalance,vp,overlays"
API_URL = f"http://{settings.CONTROLLER_IP}:{settings.VP_API_PORT}"


def openstack(*argv: str, user: str = "admin") -> subprocess.CompletedProcess[str]:
    """The real command line client, in that user's project."""
    environment = {**os.environ, **settings.admin_environment(user)}
    client = str(settings.VENV / "bin" / "openstack")
    return subprocess.run([client, *argv], capture_output=True, text=True, env=environment)


def vp_api(connection) -> Client:
    """Our own REST client, as the connection's user."""
    return Client(Adapter(session=connection.session, endpoint_override=API_URL))


def host_conf(host: str) -> Path:
    return settings.RUN / host / "etc" / "nova-vp" / "nova-vp.conf"


@contextmanager
def reconfigured(path: Path, more: str, *services: str) -> Iterator[None]:
    """These services run with `more` at the end of their file, and as before afterwards."""
    before = path.read_text()
    try:
        path.write_text(f"{before}\n{more}\n")
        _restart(services)
        yield
    finally:
        path.write_text(before)
        _restart(services)


@contextmanager
def answering_calls(host: str) -> Iterator[None]:
    """As an operator has it where overlays are served."""
    with reconfigured(host_conf(host), WITH_OVERLAYS, f"vp-agent@{host}"):
        set_mode(host, "enforce")
        yield


def _restart(services: tuple[str, ...]) -> None:
    for service in services:
        cloud.stop(service)
        cloud.start(service)
    if "nova-scheduler" in services:
        # While none listens, nova-compute cannot tell it of deletions, and gives up on them.
        cloud.wait_for(_has_scheduler, "nova-scheduler to listen", deadline_s=120, interval_s=0.5)


def _has_scheduler() -> bool:
    return any(name.startswith("scheduler_fanout") for name in cloud.queues())


def wait_until_told(connection, host: str, states: Mapping[str, int]) -> None:
    """Until the host has published exactly these servers, each in its state."""
    api = vp_api(connection)

    def is_told() -> bool:
        # A host may be asked for before its first report.
        here = [vp for vp in api.list_vps() if vp["host"] == host]
        measured = [vp for vp in here if vp["state"] is not None]
        return {vp["server_id"]: vp["state"]["number"] for vp in measured} == states

    cloud.wait_for(is_told, f"{host} to publish its servers", deadline_s=120, interval_s=0.2)
