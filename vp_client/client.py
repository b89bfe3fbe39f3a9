# SPDX-License-Identifier: Apache-2.0
"""The REST client: one method per request, answers as the API gave them, errors as exceptions.

For the CLI, Horizon and anybody with a keystoneauth adapter whose endpoint is vp-api's, such as
openstacksdk's `Proxy`. There are no classes of resources: they would repeat the API's schemas, and
everybody who asks shows or compares plain values.
"""

import contextlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, quote, urlsplit

import requests
from keystoneauth1 import exceptions as ksa_exceptions
from keystoneauth1.adapter import Adapter

from vp_client.errors import (
    AmbiguousName,
    AmbiguousOverlay,
    LoginFailed,
    NoSuchFlavor,
    NoSuchName,
    NoSuchOverlay,
    NoSuchProject,
    Refused,
    Unreachable,
)

SERVICE_TYPE = "performance-isolation"
API_VERSION = "1.4"
"""The newest that this client knows how to show."""
PAGE = 1000
"""Rows per request; the API gives no more."""
_UUID_CHARACTERS = frozenset("0123456789abcdef-")

Told = dict[str, Any]
FindServers = Callable[[str], list[str]]
"""Ids of the servers that Nova knows by a name now."""
FindFlavor = Callable[[str], Told | None]
"""`name`, `vcpus` and `extra_specs` of the flavor that Nova knows by a name or id."""
FindProject = Callable[[str, str | None], str | None]
"""Id of the project that keystone knows by a name or id, in a domain by name or id or in any."""


class Page(NamedTuple):
    rows: list[Told]
    marker: str | None
    """Of the next page; None: this is the last."""


class Client:
    def __init__(
        self,
        adapter: Adapter,
        find_servers: FindServers = lambda name: [],
        find_project: FindProject = lambda project, domain: None,
        find_flavor: FindFlavor = lambda flavor: None,
    ) -> None:
        self._adapter = adapter
        self._find_servers = find_servers
        self._find_project = find_project
        self._find_flavor = find_flavor

    def page(self, resource: str, limit: int, marker: str | None = None, **filters: Any) -> Page:
        """One page of a list, for whoever shows one after the other. `resource`: as in its address,
        such as `hosts`. `filters`: of the method that lists all of them."""
        asked = {**_given({"marker": marker, **filters}), "limit": limit}
        answer = self._request(resource, "GET", f"/{resource}", params=asked)
        return Page(answer[resource], _next_marker(answer))

    def list_hosts(self, limit: int | None = None, **filters: Any) -> list[Told]:
        """`mode`, `is_stale`, `sort`; of every list also `marker`, the id of the row before."""
        return self._list("hosts", "/hosts", limit, filters)

    def show_host(self, host: str) -> Told:
        return self._ask("host", "GET", f"/hosts/{_quoted(host)}")

    def set_mode(self, host: str, mode: str | None) -> Told:
        """Of a host; None: it has none of its own."""
        return self._ask("host", "PATCH", f"/hosts/{_quoted(host)}", json={"mode": mode})

    def list_modes(self) -> list[Told]:
        """Of the cloud and of host aggregates."""
        listed: list[Told] = self._request("modes", "GET", "/modes")["modes"]
        return listed

    def set_cloud_mode(self, mode: str | None) -> Told:
        """None: no mode is set for the cloud."""
        return self._ask("mode", "PUT", "/modes/cloud", json={"mode": mode})

    def set_aggregate_mode(self, aggregate: str, mode: str | None) -> Told:
        """Of a host aggregate, by its name in Nova; None: it has none."""
        asked = {"aggregate": aggregate, "mode": mode}
        return self._ask("mode", "PUT", "/modes/aggregates", json=asked)

    def host_history(self, host: str, limit: int | None = None, **filters: Any) -> list[Told]:
        """`begin`, `end`, `every`; oldest first."""
        return self._history(f"/hosts/{_quoted(host)}", limit, filters)

    def list_vps(
        self, host: str | None = None, limit: int | None = None, **filters: Any
    ) -> list[Told]:
        """`project_id`, `name`, `state`, `hurt_by_neighbour`, `sort`."""
        return self._list("vps", "/vps", limit, {"host": host, **filters})

    def show_vp(self, server: str) -> Told:
        """By id or name, as all that take a server."""
        return self._ask("vp", "GET", self._vp_path(server))

    def change_vp(self, server: str, **orders: Any) -> Told:
        """`mode`, `opt_out`, `priority`, `exempt`; what is absent stays."""
        return self._ask("vp", "PATCH", self._vp_path(server), json=orders)

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
        return self._ask("latency", "PUT", f"{self._vp_path(server)}/latency", **_as_json(report))

    def vp_history(self, server: str, limit: int | None = None, **filters: Any) -> list[Told]:
        """`begin`, `end`, `every`; oldest first."""
        return self._history(self._vp_path(server), limit, filters)

    def vp_actions(self, server: str, limit: int | None = None, **filters: Any) -> list[Told]:
        """`begin`, `end`; newest first."""
        return self._list("actions", f"{self._vp_path(server)}/actions", limit, filters)

    def list_overlays(self, limit: int | None = None, **filters: Any) -> list[Told]:
        """`project_id`."""
        return self._list("overlays", "/overlays", limit, filters)

    def show_overlay(self, overlay_id: str) -> Told:
        return self._ask("overlay", "GET", _overlay(overlay_id))

    def create_overlay(self, name: str, servers: list[str], **settings: Any) -> Told:
        """`project_id`, `target`, `target_unit`, `priority`, `arbitration`."""
        body = {"name": name, "servers": servers, **settings}
        return self._ask("overlay", "POST", "/overlays", **_as_json(body))

    def change_overlay(self, overlay_id: str, **settings: Any) -> Told:
        """As of `create_overlay`, and `name`; what is absent stays."""
        return self._ask("overlay", "PATCH", _overlay(overlay_id), **_as_json(settings))

    def delete_overlay(self, overlay_id: str) -> Told:
        return self._ask("overlay", "DELETE", _overlay(overlay_id))

    def add_overlay_servers(self, overlay_id: str, servers: list[str]) -> Told:
        path = f"{_overlay(overlay_id)}/servers"
        return self._ask("overlay", "POST", path, json={"servers": servers})

    def remove_overlay_server(self, overlay_id: str, server_id: str) -> Told:
        path = f"{_overlay(overlay_id)}/servers/{_quoted(server_id)}"
        return self._ask("overlay", "DELETE", path)

    def call_overlay(self, overlay_id: str, body: Told, timeout_s: float | None = None) -> Told:
        """`body`: as the API has it. `timeout_s`: None: that of the session."""
        options = {} if timeout_s is None else {"timeout": timeout_s}
        path = f"{_overlay(overlay_id)}/calls"
        return self._ask("call", "POST", path, **_as_json(body), **options)

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
        return self._list("actions", "/actions", limit, filters)

    def show_action(self, action_id: str, host: str | None = None) -> Told:
        """`host`: where two hosts have used the id."""
        return self._ask("action", "GET", _action(action_id), params=_given({"host": host}))

    def accept_action(self, action_id: str, host: str | None = None) -> Told:
        return self._order("action", f"{_action(action_id)}/accept", host)

    def undo_action(self, action_id: str, host: str | None = None) -> Told:
        return self._order("action", f"{_action(action_id)}/undo", host)

    def reject_action(
        self, action_id: str, host: str | None = None, reason: str | None = None
    ) -> Told:
        """As `accept_action`. `reason`: kept in the history of the action."""
        path = f"{_action(action_id)}/reject"
        return self._order("action", path, host, _given({"reason": reason}))

    def list_escalations(self, limit: int | None = None, **filters: Any) -> list[Told]:
        """`host`, `status`, `sort`."""
        return self._list("escalations", "/escalations", limit, filters)

    def show_escalation(self, escalation_id: str) -> Told:
        return self._ask("escalation", "GET", f"/escalations/{_quoted(escalation_id)}")

    def accept_escalation(self, escalation_id: str) -> Told:
        return self._order("escalation", f"/escalations/{_quoted(escalation_id)}/accept")

    def list_usage(self, limit: int | None = None, **filters: Any) -> list[Told]:
        """`project_id`, `server_id`, `start`, `end`, `sort`."""
        return self._list("usage", "/usage", limit, filters)

    def show_health(self) -> Told:
        """Of the service, with its `checks` by name."""
        return self._ask("health", "GET", "/health")

    def show_policies(self) -> Told:
        """`modes`, `options` and `rules` that are in force."""
        return self._ask("policies", "GET", "/policies")

    def list_profiles(self, limit: int | None = None, **filters: Any) -> list[Told]:
        """`flavor`."""
        return self._list("profiles", "/profiles", limit, filters)

    def show_profile(self, profile_id: str) -> Told:
        return self._ask("profile", "GET", f"/profiles/{_quoted(profile_id)}")

    def what_if_server(self, server: str) -> list[Told]:
        """Of a running server by id or name: what it would meet on each host."""
        return self._what_if({"server_id": self.server_id(server)})

    def what_if_flavor(self, flavor: str, image_id: str | None = None) -> list[Told]:
        """Of a new server of a flavor by id or name. Raises NoSuchFlavor."""
        found = self._find_flavor(flavor)
        if found is None:
            raise NoSuchFlavor(flavor)
        return self._what_if({"flavor": found | ({"image": image_id} if image_id else {})})

    def _what_if(self, asked: Told) -> list[Told]:
        pages = self._pages("hosts", "/what-if", {"limit": PAGE}, method="POST", json=asked)
        return _first(pages, None)

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
        return self._ask(key, "POST", path, params=_given({"host": host}), json=body or {})

    def _list(self, key: str, path: str, limit: int | None, filters: Told) -> list[Told]:
        size = min(limit or PAGE, PAGE)
        return _first(self._pages(key, path, {**_given(filters), "limit": size}), limit)

    def _history(self, path: str, limit: int | None, filters: Told) -> list[Told]:
        # Pages are minutes of time, of which most may be empty: one of as many as rows are wanted
        # would have to be asked for again and again.
        asked = {**_given(filters), "limit": PAGE}
        return _first(self._pages("history", f"{path}/history", asked), limit)

    def _pages(
        self, key: str, path: str, asked: Told, method: str = "GET", **options: Any
    ) -> Iterator[list[Told]]:
        while True:
            answer = self._request(key, method, path, params=asked, **options)
            yield answer[key]
            marker = _next_marker(answer)
            if marker is None:
                return
            asked = {**asked, "marker": marker}

    def _ask(self, key: str, method: str, path: str, **options: Any) -> Told:
        told: Told = self._request(key, method, path, **options)[key]
        return told

    def _request(
        self,
        key: str,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        **options: Any,
    ) -> Any:
        """An answer that has `key`."""
        # The catalog may name the service's root or its first version.
        root = str(self._adapter.endpoint_override).rstrip("/").removesuffix("/v1")
        asked = {
            "Accept": "application/json",
            "OpenStack-API-Version": f"{SERVICE_TYPE} {API_VERSION}",
        }
        try:
            response = self._adapter.request(
                f"{root}/v1{path}",
                method,
                raise_exc=False,
                headers={**asked, **(headers or {})},
                **options,
            )
        except ksa_exceptions.ConnectionError as exc:
            raise Unreachable(root, str(exc)) from exc
        except ksa_exceptions.ClientException as exc:  # A token is renewed when it expires.
            raise LoginFailed(str(exc)) from exc
        if response.status_code >= 400:
            raise Refused(response.status_code, _said(response))
        try:
            answer = response.json()
            answer[key]
        except (ValueError, KeyError, TypeError) as exc:
            raise Unreachable(root, "The answer is not from vp-api.") from exc
        return answer


def _next_marker(answer: Told) -> str | None:
    """The link names the next page by an address that need not be the one we came by: what counts
    in it is the marker."""
    links = answer.get("links", [])
    link = next((one["href"] for one in links if one["rel"] == "next"), None)
    return parse_qs(urlsplit(link).query)["marker"][0] if link else None


def _first(pages: Iterable[list[Told]], limit: int | None) -> list[Told]:
    rows: list[Told] = []
    for page in pages:
        rows += page
        if limit is not None and len(rows) >= limit:
            return rows[:limit]
    return rows


def _as_json(body: Mapping[str, Any]) -> Told:
    """A number that JSON does not have is vp-api's to refuse, not the library's."""
    return {"data": json.dumps(body), "headers": {"Content-Type": "application/json"}}


def _is_uuid(text: str) -> bool:
    return len(text) == 36 and _UUID_CHARACTERS.issuperset(text.lower())


def _overlay(overlay_id: str) -> str:
    return f"/overlays/{_quoted(overlay_id)}"


def _action(action_id: str) -> str:
    return f"/actions/{_quoted(action_id)}"


def _given(filters: Told) -> Told:
    """Those that were given, as a query spells them."""
    return {name: _spelled(value) for name, value in filters.items() if value is not None}


def _spelled(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


def _quoted(part: str) -> str:
    return quote(part, safe="")


def _said(response: requests.Response) -> str:
    """The API's own words; a proxy in between may have answered instead."""
    try:
        fault = response.json()["errors"][0]
        return "{title}: {detail} (HTTP {status}, {request_id})".format(**fault)
    except (ValueError, KeyError, IndexError, TypeError):
        return (
            f"HTTP {response.status_code} from {response.url}. The answer is not from vp-api. "
            "Check the endpoint of vp-api in the catalog."
        )
