# SPDX-License-Identifier: Apache-2.0
"""What nova-compute has stored and Placement has heard of a host; no assertions."""

import json
from pathlib import Path

import pymysql
from keystoneauth1.adapter import Adapter

from testbed.lab import cloud, settings

PLACEMENT_MICROVERSION = "1.39"
# A call that died with its broker is given up after 60 s, and the next one is up to 30 s away.
UPDATE_DEADLINE_S = 240


def nova_conf(host: str) -> Path:
    return settings.RUN / host / "etc" / "nova" / "nova.conf"


def _row(host: str, column: str) -> object:
    with (
        pymysql.connect(
            host=settings.DATABASE_IP,
            port=settings.DATABASE_PORT,
            user="root",
            database="nova_cell1",
        ) as connection,
        connection.cursor() as cursor,
    ):
        query = f"SELECT {column} FROM compute_nodes WHERE deleted = 0 AND host = %s"
        cursor.execute(query, (host,))
        row = cursor.fetchone()
    return row[0] if row else None


def metrics(host: str) -> dict[str, int]:
    """By name, as nova-scheduler reads them."""
    stored = json.loads(str(_row(host, "metrics") or "[]"))
    return {metric["name"]: metric["value"] for metric in stored}


def wait_for_updates(host: str, count: int = 2) -> None:
    """Until nova-compute has told of its resources so often, from now on."""
    for _ in range(count):
        before = _row(host, "updated_at")
        cloud.wait_for(
            lambda before=before: _row(host, "updated_at") != before,
            f"nova-compute of {host} to tell of its resources",
            deadline_s=UPDATE_DEADLINE_S,
            interval_s=0.5,
        )


def wait_until_up(connection, *hosts: str) -> None:
    """Until nova-computes that were just restarted may be given servers again."""
    for host in hosts:
        wait_for_updates(host, 1)
        wait_until_usable(connection, host)


def wait_until_heard_again(connection, *hosts: str) -> None:
    """Until each nova-compute has told Nova anew that it lives. One whose report died with the
    broker is thought to be up for a minute more, and may be held by that report for longer."""
    before = {host: _heard_at(connection, host) for host in hosts}
    for host in hosts:
        cloud.wait_for(
            lambda host=host: _heard_at(connection, host) != before[host],
            f"nova-compute of {host} to be heard again",
            deadline_s=UPDATE_DEADLINE_S,
            interval_s=0.5,
        )


def _heard_at(connection, host: str) -> str:
    [service] = connection.compute.services(binary="nova-compute", host=host)
    return service.updated_at


def wait_until_usable(connection, host: str) -> None:
    cloud.wait_for(
        lambda: _is_up(connection, host),
        f"nova-compute of {host} to be heard",
        deadline_s=UPDATE_DEADLINE_S,
        interval_s=0.5,
    )


def _is_up(connection, host: str) -> bool:
    """Nova disables a host itself while its libvirtd is away."""
    services = connection.compute.services(binary="nova-compute", host=host)
    return [(service.state, service.status) for service in services] == [("up", "enabled")]


class Providers:
    """Placement's, as its administrator sees them."""

    def __init__(self, connection) -> None:
        self._adapter = Adapter(
            connection.session,
            service_type="placement",
            interface="public",
            default_microversion=PLACEMENT_MICROVERSION,
        )

    def uuid_of(self, name: str) -> str:
        found = self._adapter.get("/resource_providers", params={"name": name}).json()
        [provider] = found["resource_providers"]
        return str(provider["uuid"])

    def traits(self, name: str) -> set[str]:
        path = f"/resource_providers/{self.uuid_of(name)}/traits"
        return set(self._adapter.get(path).json()["traits"])

    def ours(self, name: str) -> set[str]:
        prefix = "CUSTOM_VP_"
        return {t.removeprefix(prefix) for t in self.traits(name) if t.startswith(prefix)}

    def add_trait(self, name: str, trait: str) -> None:
        self._adapter.put(f"/traits/{trait}")
        path = f"/resource_providers/{self.uuid_of(name)}/traits"
        now = self._adapter.get(path).json()
        self._adapter.put(path, json=now | {"traits": sorted({*now["traits"], trait})})

    def remove_trait(self, name: str, trait: str) -> None:
        path = f"/resource_providers/{self.uuid_of(name)}/traits"
        now = self._adapter.get(path).json()
        self._adapter.put(path, json=now | {"traits": sorted({*now["traits"]} - {trait})})
