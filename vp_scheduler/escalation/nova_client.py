# SPDX-License-Identifier: Apache-2.0
"""The few things that are asked of Nova, by python-novaclient: look, migrate, abort.

Nova's answers become small types and exceptions here and nowhere else. What matters of a failure is
whether Nova may have heard the request: `NovaAway` says that nobody knows.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

from keystoneauth1 import exceptions as auth_errors
from novaclient import client as novaclient
from novaclient import exceptions as nova_errors

from nova_vp.host_facts import ServerGroup
from vp_scheduler.escalation.session import Cloud

MICROVERSION = "2.80"
"""Since it, migrations tell who asked for them. Nova 20 and newer."""
NO_CLOUD = "[cloud] is not configured: Nova cannot be asked"
MIGRATING = "migrating"
BEGIN, ABORT = "live-migration", "live_migration_cancel"
"""Nova's names of what was done with a server."""
HOST = "OS-EXT-SRV-ATTR:host"
DOWN = frozenset({"UNKNOWN", "DOWN"})
"""What Nova says of the host of a server: nobody has heard of it lately, or an operator says so."""
MOST_PROJECTS = 500
"""Projects whose tokens are kept at a time."""
RUNNING = frozenset({"accepted", "queued", "preparing", "running", "post-migrating"})
"""States of a live migration that has not ended. Others than these and the ends count as running
too: what is not known to be over must not be taken for it."""
ENDED = frozenset({"completed", "cancelled", "failed", "error"})


class Server(NamedTuple):
    status: str
    task_state: str | None
    is_locked: bool
    host: str | None
    """None: it is on none, or Nova does not show it to us."""
    is_host_down: bool
    """Nova has not heard of its host's nova-compute for a while, or was told that it is down."""


class Migration(NamedTuple):
    id: int
    uuid: str
    status: str
    source: str | None
    dest: str | None
    is_ours: bool
    """Asked for by our own user."""

    @property
    def is_over(self) -> bool:
        return self.status in ENDED


class FlavoredServer(NamedTuple):
    uuid: str
    host: str | None
    """None: it is on none."""
    extra_specs: Mapping[str, str]
    """Of its flavor, as it was when the server was built or last resized."""


class Aggregate(NamedTuple):
    name: str
    hosts: tuple[str, ...]


class NovaAway(Exception):
    """No answer, or one that does not tell whether the request was heard. Look before asking
    again."""


class NovaConflict(Exception):
    """Something else is being done with that server."""


class NovaRefused(Exception):
    """Nova will not do that, and would not later."""


class ServerGone(Exception):
    """Nova knows no such server, or none in that project."""


class NotAllowed(Exception):
    """Our identity lacks a right. The text says what an operator has to grant."""


REFUSALS = (NotAllowed, NovaConflict, NovaRefused, ServerGone)
"""Of one project or server: others may be answered."""
NOT_NOVAS = (ValueError, KeyError, TypeError, AttributeError)
"""What reading an answer raises that is not Nova's: a proxy's, say."""


class CloudNotConfigured(NotAllowed):
    """There is no identity at all: `[cloud]` is empty."""


class Nova(Protocol):
    """All raise NovaAway, ServerGone and NotAllowed. Thread-safe."""

    def look(self, project_id: str, server: str) -> Server: ...

    def migrations(self, project_id: str, server: str) -> list[Migration]:
        """Ours, whatever became of them, and those of anybody that run; the latest first."""

    def migrate(self, project_id: str, server: str) -> None:
        """To a host of Nova's choice. Returns once Nova has taken it on; raises NovaConflict and
        NovaRefused."""

    def abort(self, project_id: str, server: str, migration_id: int) -> None:
        """Raises NovaConflict and NovaRefused where it is too late, or too early."""

    def was_aborted(self, project_id: str, server: str) -> bool:
        """Whether anybody asked for an end of that server's latest live migration. Nova 34 ends
        those that were aborted as it ends those that failed."""


class NovaClient:
    """Implements `Nova`."""

    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._clients: OrderedDict[str, Any] = OrderedDict()
        self._lock = threading.Lock()

    def look(self, project_id: str, server: str) -> Server:
        with _translated(project_id):
            found = self._client(project_id).servers.get(server)
        return Server(
            status=found.status,
            task_state=getattr(found, "OS-EXT-STS:task_state", None),
            is_locked=bool(getattr(found, "locked", False)),
            host=getattr(found, HOST, None),
            is_host_down=getattr(found, "host_status", "") in DOWN,
        )

    def migrations(self, project_id: str, server: str) -> list[Migration]:
        client = self._client(project_id)
        with _translated(project_id):
            user_id = client.client.get_user_id()
            # Nova files a migration under the project of who asked for it, which here is us.
            ours = client.migrations.list(
                instance_uuid=server,
                migration_type="live-migration",
                project_id=client.client.get_project_id(),
            )
        found = {one.id: _migration(one, user_id) for one in ours}
        try:
            with _translated(project_id):
                running = client.server_migrations.list(server)
        except ServerGone:
            running = []
        found.update({one.id: _migration(one, user_id) for one in running if one.id not in found})
        return [found[id] for id in sorted(found, reverse=True)]

    def migrate(self, project_id: str, server: str) -> None:
        with _translated(project_id):
            self._client(project_id).servers.live_migrate(server, host=None, block_migration="auto")

    def abort(self, project_id: str, server: str, migration_id: int) -> None:
        with _translated(project_id):
            self._client(project_id).server_migrations.live_migration_abort(server, migration_id)

    def was_aborted(self, project_id: str, server: str) -> bool:
        with _translated(project_id):
            actions = self._client(project_id).instance_action.list(server)
        # The newest comes first.
        latest = next((one.action for one in actions if one.action in (BEGIN, ABORT)), BEGIN)
        return bool(latest == ABORT)

    def servers_of(self, project_id: str) -> list[FlavoredServer]:
        """All of that project. Raises as `Nova` does."""
        with _translated(project_id):
            found = self._client(project_id).servers.list(limit=-1)
        return [_flavored(one, project_id) for one in found]

    def groups_of(self, project_id: str) -> list[ServerGroup]:
        """Server groups of that project. Raises as `Nova` does."""
        with _translated(project_id):
            found = self._client(project_id).server_groups.list()
        return [ServerGroup(one.id, one.policy, tuple(one.members)) for one in found]

    def aggregates(self, project_id: str) -> list[Aggregate]:
        """All host aggregates, asked for as a member of that project. Raises as `Nova` does."""
        with _translated(project_id):
            found = self._client(project_id).aggregates.list()
        return [Aggregate(one.name, tuple(one.hosts)) for one in found]

    def _client(self, project_id: str) -> Any:
        with self._lock:
            client = self._clients.pop(project_id, None) or self._open(project_id)
            self._clients[project_id] = client
            if len(self._clients) > MOST_PROJECTS:
                self._clients.popitem(last=False)
            return client

    def _open(self, project_id: str) -> Any:
        cloud = self._cloud
        return novaclient.Client(
            MICROVERSION,
            session=cloud.session,
            auth=cloud.auth_for(project_id),
            region_name=cloud.region_name,
            endpoint_type=cloud.interfaces,
            endpoint_override=cloud.compute_override,
            # A request that may have been heard is never sent again behind our back.
            connect_retries=0,
            status_code_retries=0,
        )


class NoCloud:
    """Stands for `Nova` where `[cloud]` is not configured, and nothing may be done either."""

    def look(self, project_id: str, server: str) -> Server:
        raise CloudNotConfigured(NO_CLOUD)

    def migrations(self, project_id: str, server: str) -> list[Migration]:
        raise CloudNotConfigured(NO_CLOUD)

    def migrate(self, project_id: str, server: str) -> None:
        raise CloudNotConfigured(NO_CLOUD)

    def abort(self, project_id: str, server: str, migration_id: int) -> None:
        raise CloudNotConfigured(NO_CLOUD)

    def was_aborted(self, project_id: str, server: str) -> bool:
        raise CloudNotConfigured(NO_CLOUD)


def _migration(found: Any, user_id: str | None) -> Migration:
    return Migration(
        id=int(found.id),
        uuid=found.uuid,
        status=found.status,
        source=found.source_compute,
        dest=found.dest_compute,
        is_ours=found.user_id == user_id,
    )


def _flavored(found: Any, project_id: str) -> FlavoredServer:
    """Raises NotAllowed, NovaAway."""
    flavor = getattr(found, "flavor", None)
    if flavor is None:
        raise NovaAway(f"a cell of Nova does not answer: nothing is known of server {found.id}")
    if "extra_specs" not in flavor or not hasattr(found, HOST):
        raise NotAllowed(
            "Nova does not show hosts and flavor extra specs of servers: give nova-api "
            f"etc/nova-vp/nova-policy.yaml and the user of [cloud] its role in project {project_id}"
        )
    return FlavoredServer(found.id, getattr(found, HOST), flavor["extra_specs"])


@contextmanager
def _translated(project_id: str) -> Iterator[None]:
    try:
        yield
    except nova_errors.ClientException as exc:
        raise _of_nova(exc, project_id) from exc
    except (auth_errors.Unauthorized, auth_errors.Forbidden) as exc:
        raise NotAllowed(
            f"keystone gives the user of [cloud] no token for project {project_id}: grant it the "
            f"role of etc/nova-vp/nova-policy.yaml there, on the domain and inherited ({exc})"
        ) from exc
    except auth_errors.ClientException as exc:
        raise NovaAway(f"no answer from the cloud: {_first_line(exc)}") from exc


def _of_nova(exc: nova_errors.ClientException, project_id: str) -> Exception:
    text = f"Nova answers {exc.code}: {_first_line(exc)}"
    if exc.code == 404:
        return ServerGone(text)
    if exc.code == 409:
        return NovaConflict(text)
    if exc.code in (401, 403):
        return NotAllowed(
            f"{text}; give nova-api etc/nova-vp/nova-policy.yaml and the user of [cloud] its role "
            f"in project {project_id}"
        )
    # 408 and 429 come from what stands before Nova.
    if exc.code in (408, 429) or exc.code >= 500:
        return NovaAway(text)
    return NovaRefused(text)


def _first_line(exc: Exception) -> str:
    return str(exc).partition("\n")[0][:300]
