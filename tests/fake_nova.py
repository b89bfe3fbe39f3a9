# SPDX-License-Identifier: Apache-2.0
"""The few things of Nova's API that migrations need, again: HTTP, microversions, a scheduler.

A second implementation for the real python-novaclient and keystoneauth to speak to. As in Nova:
who is no admin sees the servers of the token's own project alone, a migration is filed under the
project of who asked for it, a server that is busy answers 409, and the migration itself comes into
being a moment after the request was taken on. The host of a server is the one that Nova has it on,
whatever anybody claims, and shown only to who may see it. Ids are found in upper case too, as by
MariaDB.

Tokens are those of `tests.keystone` (`USER.PROJECT`). Tests move migrations on by hand.
"""

import json
import re
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import webob
import webob.dec
import webob.exc

IN_PROGRESS = ("queued", "preparing", "running", "post-migrating")
ENDED = ("completed", "cancelled", "failed", "error")


@dataclass
class FakeServer:
    id: str
    project_id: str
    host: str | None
    """None, as of a server that is shelved."""
    status: str = "ACTIVE"
    task_state: str | None = None
    locked: bool = False
    host_status: str = "UP"
    extra_specs: dict[str, str] = field(default_factory=dict)
    """Of its flavor."""


@dataclass(frozen=True)
class FakeMigration:
    id: int
    server: str
    user_id: str
    project_id: str
    source: str | None
    dest: str | None = None
    status: str = "accepted"
    uuid: str = field(default_factory=lambda: str(uuid.uuid4()))

    def as_json(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "uuid": self.uuid,
            "status": self.status,
            "instance_uuid": self.server,
            "server_uuid": self.server,
            "migration_type": "live-migration",
            "source_compute": self.source,
            "dest_compute": self.dest,
            "user_id": self.user_id,
            "project_id": self.project_id,
            "created_at": "2026-11-21T12:00:00.000000",
        }


class FakeNova:
    """Thread-safe. `destination`: what its scheduler says for a server; None: no valid host."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.servers: dict[str, FakeServer] = {}
        self.migrations: list[FakeMigration] = []
        self.destination: Callable[[FakeServer], str | None] = lambda server: "vp2"
        self.is_instant = True
        """Migrations complete as soon as they are looked at."""
        self.shows_hosts = True
        """Whether its rules let our role see extended attributes and flavor extra specs."""
        self.groups: list[dict[str, Any]] = []
        """As Nova answers, with `project_id`."""
        self.aggregates: list[dict[str, Any]] = []
        self.begins = True
        """The conductor takes on what the API has accepted."""
        self.faults: list[int] = []
        """Answers, instead of what was asked for, to the next requests that begin a migration; a
        negative one is given after the request was carried out."""
        self.away: int = 0
        """Answer to every request."""
        self.on_request: Callable[[], None] = lambda: None
        """Called while a client waits for its answer."""
        self.actions: list[tuple[str, str]] = []
        """Server and what was done with it, the newest first."""
        self.aborts_end_as = "error"
        """As in Nova 34; before it, `cancelled`."""
        self.aborted: list[int] = []
        self._accepted: list[FakeMigration] = []

    def add_server(self, id: str, project_id: str = "p1", host: str = "vp1") -> FakeServer:
        with self.lock:
            self.servers[id] = FakeServer(id, project_id, host)
            return self.servers[id]

    def delete_server(self, id: str) -> None:
        with self.lock:
            del self.servers[id]

    def begin(self, server: FakeServer, user_id: str, project_id: str) -> None:
        """As for a request of that user, whose conductor has it now or with `catch_up`."""
        with self.lock:
            server.task_state = "migrating"
            self.actions.insert(0, (server.id, "live-migration"))
            number = len(self.migrations) + len(self._accepted) + 1
            migration = FakeMigration(number, server.id, user_id, project_id, server.host)
            self._accepted.append(migration)
            if self.begins:
                self.catch_up()

    def catch_up(self) -> None:
        with self.lock:
            for migration in self._accepted:
                self.migrations.append(migration)
                server = self.servers.get(migration.server)  # None: deleted meanwhile.
                dest = None if server is None else self.destination(server)
                if dest is None:
                    self.finish(migration.id, "error")
                else:
                    self._change(migration.id, status="running", dest=dest)
            self._accepted.clear()

    def finish(self, id: int, status: str = "completed") -> None:
        with self.lock:
            done = self._change(id, status=status)
            server = self.servers.get(done.server)
            if server:
                server.task_state = None
                server.host = (done.dest or server.host) if status == "completed" else server.host

    def cancel(self, migration: FakeMigration) -> None:
        """Whoever asked for it."""
        with self.lock:
            self.actions.insert(0, (migration.server, "live_migration_cancel"))
            self.finish(migration.id, self.aborts_end_as)

    def running(self) -> list[FakeMigration]:
        with self.lock:
            return [one for one in self.migrations if one.status not in ENDED]

    def of(self, server: str) -> list[FakeMigration]:
        with self.lock:
            return [one for one in self.migrations if one.server == server]

    def _change(self, id: int, **changes: Any) -> FakeMigration:
        index = next(i for i, one in enumerate(self.migrations) if one.id == id)
        self.migrations[index] = replace(self.migrations[index], **changes)
        return self.migrations[index]

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        with self.lock:
            self.on_request()
            if self.away:
                return webob.Response(status=self.away, json={})
            user, _, project = request.headers["X-Auth-Token"].partition(".")
            if request.headers.get("OpenStack-API-Version") != "compute 2.80":
                raise webob.exc.HTTPNotAcceptable()
            for method, pattern, handler in ROUTES:
                match = re.fullmatch(r"/v2\.1" + pattern, request.path_info)
                if match and request.method == method:
                    return handler(self, request, (f"id-of-{user}", project), *match.groups())
            raise webob.exc.HTTPNotFound()

    def _visible(self, project: str, id: str) -> FakeServer:
        server = self.servers.get(id.lower())
        if server is None or server.project_id != project:
            raise webob.exc.HTTPNotFound()
        return server

    def show(self, request: Any, who: tuple[str, str], id: str) -> webob.Response:
        server = self._visible(who[1], id)
        shown = {
            "id": server.id,
            "status": server.status,
            "OS-EXT-STS:task_state": server.task_state,
            "locked": server.locked,
            "host_status": server.host_status,
            **({"OS-EXT-SRV-ATTR:host": server.host} if self.shows_hosts else {}),
        }
        return webob.Response(json={"server": shown})

    def list_servers(self, request: Any, who: tuple[str, str]) -> webob.Response:
        """In pages, until one is empty."""
        mine = [one for one in self.servers.values() if one.project_id == who[1]]
        ids = [one.id for one in mine]
        if marker := request.params.get("marker"):
            mine = mine[ids.index(marker) + 1 :]
        shown = [
            {
                "id": one.id,
                "status": one.status,
                "flavor": {
                    "original_name": "m1.small",
                    **({"extra_specs": one.extra_specs} if self.shows_hosts else {}),
                },
                **({"OS-EXT-SRV-ATTR:host": one.host} if self.shows_hosts else {}),
            }
            for one in mine[:2]
        ]
        return webob.Response(json={"servers": shown})

    def list_groups(self, request: Any, who: tuple[str, str]) -> webob.Response:
        mine = [one for one in self.groups if one["project_id"] == who[1]]
        return webob.Response(json={"server_groups": mine})

    def list_aggregates(self, request: Any, who: tuple[str, str]) -> webob.Response:
        return webob.Response(json={"aggregates": self.aggregates})

    def act(self, request: Any, who: tuple[str, str], id: str) -> webob.Response:
        server = self._visible(who[1], id)
        asked = json.loads(request.body)
        if asked != {"os-migrateLive": {"host": None, "block_migration": "auto"}}:
            raise webob.exc.HTTPForbidden()
        fault = self.faults.pop(0) if self.faults else 0
        if fault > 0:
            return webob.Response(status=fault, json={})
        if server.locked or server.task_state or server.status != "ACTIVE":
            raise webob.exc.HTTPConflict()
        self.begin(server, *who)
        return webob.Response(status=-fault, json={}) if fault else webob.Response(status=202)

    def list_all(self, request: Any, who: tuple[str, str]) -> webob.Response:
        if request.params.get("project_id") != who[1]:
            raise webob.exc.HTTPForbidden()
        if self.is_instant:
            for one in self.running():
                self.finish(one.id)
        server = request.params["instance_uuid"]
        found = [one.as_json() for one in self.of(server) if one.project_id == who[1]]
        return webob.Response(json={"migrations": found})

    def list_of_server(self, request: Any, who: tuple[str, str], id: str) -> webob.Response:
        self._visible(who[1], id)
        found = [one.as_json() for one in self.of(id) if one.status in IN_PROGRESS]
        return webob.Response(json={"migrations": found})

    def abort(self, request: Any, who: tuple[str, str], id: str, number: str) -> webob.Response:
        self._visible(who[1], id)
        [found] = [one for one in self.of(id) if one.id == int(number)]
        if found.status not in IN_PROGRESS[:3]:
            raise webob.exc.HTTPBadRequest()
        self.aborted.append(found.id)
        self.cancel(found)
        return webob.Response(status=202)

    def list_actions(self, request: Any, who: tuple[str, str], id: str) -> webob.Response:
        self._visible(who[1], id)
        found = [{"action": action} for server, action in self.actions if server == id]
        return webob.Response(json={"instanceActions": found})


ROUTES: list[tuple[str, str, Any]] = [
    ("GET", r"/servers/detail", FakeNova.list_servers),
    ("GET", r"/os-server-groups", FakeNova.list_groups),
    ("GET", r"/os-aggregates", FakeNova.list_aggregates),
    ("GET", r"/servers/([^/]+)", FakeNova.show),
    ("POST", r"/servers/([^/]+)/action", FakeNova.act),
    ("GET", r"/os-migrations", FakeNova.list_all),
    ("GET", r"/servers/([^/]+)/migrations", FakeNova.list_of_server),
    ("GET", r"/servers/([^/]+)/os-instance-actions", FakeNova.list_actions),
    ("DELETE", r"/servers/([^/]+)/migrations/(\d+)", FakeNova.abort),
]
