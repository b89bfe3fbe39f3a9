# SPDX-License-Identifier: Apache-2.0
"""The REST client: one method per request, answers as the API gave them, errors as exceptions.

For the CLI, Horizon and anybody with a keystoneauth adapter whose endpoint is vp-api's, such as
openstacksdk's `Proxy`. There are no classes of resources: they would repeat the API's schemas, and
everybody who asks shows or compares plain values.
"""

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple
from urllib.parse import quote

from keystoneauth1.adapter import Adapter

from vp_client.errors import (
    AmbiguousName,
    AmbiguousOverlay,
    NoSuchFlavor,
    NoSuchName,
    NoSuchOverlay,
    NoSuchProject,
    Refused,
)
from vp_client.transport import PAGE, Page, Told, Transport, as_json, given

_UUID_CHARACTERS = frozenset("0123456789abcdef-")

FindServers = Callable[[str], list[str]]
"""Ids of the servers that Nova knows by a name now."""
FindFlavor = Callable[[str], Told | None]
"""`name`, `vcpus` and `extra_specs` of the flavor that Nova knows by a name or id."""
FindProject = Callable[[str, str | None], str | None]
"""Id of the project that keystone knows by a name or id, in a domain by name or id or in any."""


class WhatIfAnswer(NamedTuple):
    """Of all its pages."""

    newcomer: Told
    """What the server is taken for: `state`, `source`, `isolation`, `vcpus` and
    `strict_max_hurt_ratio`."""
    hosts: list[Told]


class Client:
    def __init__(
        self,
        adapter: Adapter,
        find_servers: FindServers = lambda name: [],
        find_project: FindProject = lambda project, domain: None,
        find_flavor: FindFlavor = lambda flavor: None,
    ) -> None:
        self._api = Transport(adapter)
        self._find_servers = find_servers
        self._find_project = find_project
        self._find_flavor = find_flavor

    def page(self, resource: str, limit: int, marker: str | None = None, **filters: Any) -> Page:
        """One page of a list, for whoever shows one after the other. `resource`: as in its address,
        such as `hosts`. `filters`: of the method that lists all of them."""
        asked = {**given({"marker": marker, **filters}), "limit": limit}
        return self._api.page(resource, f"/{resource}", asked)

    def list_hosts(self, limit: int | None = None, **filters: Any) -> list[Told]:
        """`mode`, `is_stale`, `sort`; of every list also `marker`, the id of the row before."""
        return self._api.list_all("hosts", "/hosts", limit, filters)

    def show_host(self, host: str) -> Told:
        return self._api.ask("host", "GET", f"/hosts/{_quoted(host)}")

    def set_mode(self, host: str, mode: str | None) -> Told:
        """Of a host; None: it has none of its own."""
        return self._api.ask("host", "PATCH", f"/hosts/{_quoted(host)}", json={"mode": mode})

    def list_modes(self) -> list[Told]:
        """Of the cloud and of host aggregates."""
        listed: list[Told] = self._api.request("modes", "GET", "/modes")["modes"]
        return listed

    def set_cloud_mode(self, mode: str | None) -> Told:
        """None: no mode is set for the cloud."""
        return self._api.ask("mode", "PUT", "/modes/cloud", json={"mode": mode})

    def set_aggregate_mode(self, aggregate: str, mode: str | None) -> Told:
        """Of a host aggregate, by its name in Nova; None: it has none."""
        asked = {"aggregate": aggregate, "mode": mode}
        return self._api.ask("mode", "PUT", "/modes/aggregates", json=asked)

    def host_history(self, host: str, limit: int | None = None, **filters: Any) -> list[Told]:
        """`begin`, `end`, `every`; oldest first."""
        return self._api.history(f"/hosts/{_quoted(host)}", limit, filters)

    def list_vps(
        self, host: str | None = None, limit: int | None = None, **filters: Any
    ) -> list[Told]:
        """`project_id`, `name`, `state`, `hurt_by_neighbour`, `sort`."""
        return self._api.list_all("vps", "/vps", limit, {"host": host, **filters})

    def show_vp(self, server: str) -> Told:
        """By id or name, as all that take a server."""
        return self._api.ask("vp", "GET", self._vp_path(server))

    def change_vp(self, server: str, **overrides: Any) -> Told:
        """`mode`, `opt_out`, `priority`, `exempt`; what is absent stays."""
        return self._api.ask("vp", "PATCH", self._vp_path(server), json=overrides)

    def report_latency(
        self,
        server: str,
        latency_ms: float,
        load: float | None = None,
        percentile: float | None = None,
        measured_at: float | None = None,
    ) -> Told:
        """`measured_at`: seconds since 1970; None: when vp-api has it."""
        report = {
            "latency_ms": latency_ms,
            "load": load,
            "percentile": percentile,
            **({} if measured_at is None else {"measured_at": measured_at}),
        }
        path = f"{self._vp_path(server)}/latency"
        return self._api.ask("latency", "PUT", path, **as_json(report))

    def vp_history(self, server: str, limit: int | None = None, **filters: Any) -> list[Told]:
        """`begin`, `end`, `every`; oldest first."""
        return self._api.history(self._vp_path(server), limit, filters)

    def vp_actions(self, server: str, limit: int | None = None, **filters: Any) -> list[Told]:
        """`begin`, `end`; newest first."""
        return self._api.list_all("actions", f"{self._vp_path(server)}/actions", limit, filters)

    def list_overlays(self, limit: int | None = None, **filters: Any) -> list[Told]:
        """`project_id`."""
        return self._api.list_all("overlays", "/overlays", limit, filters)

    def show_overlay(self, overlay_id: str) -> Told:
        return self._api.ask("overlay", "GET", _overlay(overlay_id))

    def create_overlay(self, name: str, servers: list[str], **settings: Any) -> Told:
        """`project_id`, `target`, `target_unit`, `priority`, `arbitration`."""
        body = {"name": name, "servers": servers, **settings}
        return self._api.ask("overlay", "POST", "/overlays", **as_json(body))

    def change_overlay(self, overlay_id: str, **settings: Any) -> Told:
        """As of `create_overlay`, and `name`; what is absent stays."""
        return self._api.ask("overlay", "PATCH", _overlay(overlay_id), **as_json(settings))

    def delete_overlay(self, overlay_id: str) -> Told:
        return self._api.ask("overlay", "DELETE", _overlay(overlay_id))

    def add_overlay_servers(self, overlay_id: str, servers: list[str]) -> Told:
        path = f"{_overlay(overlay_id)}/servers"
        return self._api.ask("overlay", "POST", path, json={"servers": servers})

    def remove_overlay_server(self, overlay_id: str, server_id: str) -> Told:
        path = f"{_overlay(overlay_id)}/servers/{_quoted(server_id)}"
        return self._api.ask("overlay", "DELETE", path)

    def call_overlay(self, overlay_id: str, body: Told, timeout_s: float | None = None) -> Told:
        """`body`: as the API has it. `timeout_s`: None: that of the session."""
        options = {} if timeout_s is None else {"timeout": timeout_s}
        path = f"{_overlay(overlay_id)}/calls"
        return self._api.ask("call", "POST", path, **as_json(body), **options)

    def overlay_id(self, overlay: str) -> str:
        """Of an overlay by id or name: of a registered one before that of a group. Raises
        NoSuchOverlay, AmbiguousOverlay."""
        if _is_uuid(overlay):
            return overlay
        named = [one for one in self.list_overlays() if one["name"] == overlay]
        registered = [one for one in named if not one["is_group"]]
        found = [one["id"] for one in registered or named]
        if not found:
            raise NoSuchOverlay(overlay)
        if len(found) > 1:
            raise AmbiguousOverlay(overlay, found)
        return str(found[0])

    def list_actions(self, limit: int | None = None, **filters: Any) -> list[Told]:
        """`host`, `server_id`, `project_id`, `result`, `begin`, `end`, `sort`."""
        return self._api.list_all("actions", "/actions", limit, filters)

    def show_action(self, action_id: str, host: str | None = None) -> Told:
        """`host`: where two hosts have used the id."""
        return self._api.ask("action", "GET", _action(action_id), params=given({"host": host}))

    def accept_action(self, action_id: str, host: str | None = None) -> Told:
        return self._order("action", f"{_action(action_id)}/accept", host)

    def undo_action(self, action_id: str, host: str | None = None) -> Told:
        return self._order("action", f"{_action(action_id)}/undo", host)

    def reject_action(
        self, action_id: str, host: str | None = None, reason: str | None = None
    ) -> Told:
        """As `accept_action`. `reason`: kept in the history of the action."""
        path = f"{_action(action_id)}/reject"
        return self._order("action", path, host, given({"reason": reason}))

    def list_escalations(self, limit: int | None = None, **filters: Any) -> list[Told]:
        """`host`, `status`, `sort`."""
        return self._api.list_all("escalations", "/escalations", limit, filters)

    def show_escalation(self, escalation_id: str) -> Told:
        return self._api.ask("escalation", "GET", f"/escalations/{_quoted(escalation_id)}")

    def accept_escalation(self, escalation_id: str) -> Told:
        return self._order("escalation", f"/escalations/{_quoted(escalation_id)}/accept")

    def list_usage(self, limit: int | None = None, **filters: Any) -> list[Told]:
        """`project_id`, `server_id`, `start`, `end`, `sort`."""
        return self._api.list_all("usage", "/usage", limit, filters)

    def show_health(self) -> Told:
        """Of the service, with its `checks` by name."""
        return self._api.ask("health", "GET", "/health")

    def show_policies(self) -> Told:
        """`modes`, `options` and `rules` that are in force."""
        return self._api.ask("policies", "GET", "/policies")

    def list_profiles(self, limit: int | None = None, **filters: Any) -> list[Told]:
        """`flavor`."""
        return self._api.list_all("profiles", "/profiles", limit, filters)

    def show_profile(self, profile_id: str) -> Told:
        return self._api.ask("profile", "GET", f"/profiles/{_quoted(profile_id)}")

    def what_if_server(self, server: str) -> WhatIfAnswer:
        """Of a running server by id or name: what it would meet on each host."""
        return self._what_if({"server_id": self.server_id(server)})

    def what_if_flavor(self, flavor: str, image_id: str | None = None) -> WhatIfAnswer:
        """Of a new server of a flavor by id or name. Raises NoSuchFlavor."""
        found = self._find_flavor(flavor)
        if found is None:
            raise NoSuchFlavor(flavor)
        return self._what_if({"flavor": found | ({"image": image_id} if image_id else {})})

    def _what_if(self, asked: Told) -> WhatIfAnswer:
        answers = list(
            self._api.answers("hosts", "/what-if", {"limit": PAGE}, method="POST", json=asked)
        )
        hosts = [one for told in answers for one in told["hosts"]]
        return WhatIfAnswer(answers[0]["newcomer"], hosts)

    def server_id(self, server: str) -> str:
        """Of a server by id or name: Nova's, which may have changed, or else the one it was given
        at boot. Raises NoSuchName, AmbiguousName."""
        if _is_uuid(server):
            return server
        found = self._find_servers(server)
        if not found:
            found = [vp["server_id"] for vp in self.list_vps(name=server) if vp["name"] == server]
        if not found:
            raise NoSuchName(server)
        if len(found) > 1:
            raise AmbiguousName(server, found)
        return found[0]

    def renamed_vps(self, name: str) -> list[Told]:
        """Those that Nova knows by a name that was not given at boot."""
        found = []
        for server_id in self._find_servers(name):
            with contextlib.suppress(Refused):  # Its host runs no vp-agent.
                found.append(self.show_vp(server_id))
        return found

    def project_id(self, project: str, domain: str | None = None) -> str:
        """Of a project by id or name. Raises NoSuchProject."""
        if len(project) == 32 and _UUID_CHARACTERS.issuperset(project):
            return project
        found = self._find_project(project, domain)
        if found is None:
            raise NoSuchProject(project)
        return found

    def _vp_path(self, server: str) -> str:
        return f"/vps/{_quoted(self.server_id(server))}"

    def _order(
        self, key: str, path: str, host: str | None = None, body: Told | None = None
    ) -> Told:
        return self._api.ask(key, "POST", path, params=given({"host": host}), json=body or {})


def _is_uuid(text: str) -> bool:
    return len(text) == 36 and _UUID_CHARACTERS.issuperset(text.lower())


def _overlay(overlay_id: str) -> str:
    return f"/overlays/{_quoted(overlay_id)}"


def _action(action_id: str) -> str:
    return f"/actions/{_quoted(action_id)}"


def _quoted(part: str) -> str:
    return quote(part, safe="")
