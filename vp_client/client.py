# SPDX-License-Identifier: Apache-2.0
"""The REST client: one method per request, answers as the API gave them, errors as exceptions.

For the CLI, Horizon and anybody with a keystoneauth adapter whose endpoint is vp-api's.
"""

from typing import Any
from urllib.parse import quote

import requests
from keystoneauth1 import exceptions as ksa_exceptions
from keystoneauth1.adapter import Adapter

from vp_client.errors import AmbiguousName, NoSuchName, Refused, Unreachable

SERVICE_TYPE = "performance-isolation"
_UUID_CHARACTERS = frozenset("0123456789abcdef-")


class Client:
    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def list_hosts(self) -> list[dict[str, Any]]:
        return self._ask("hosts", "GET", "/hosts")

    def show_host(self, host: str) -> dict[str, Any]:
        return self._ask("host", "GET", f"/hosts/{_quoted(host)}")

    def set_mode(self, host: str, mode: str) -> dict[str, Any]:
        return self._ask("host", "PATCH", f"/hosts/{_quoted(host)}", json={"mode": mode})

    def accept(self, host: str, action_id: str) -> dict[str, Any]:
        path = f"/hosts/{_quoted(host)}/proposals/{_quoted(action_id)}"
        return self._ask("proposal", "PUT", path, json={"accepted": True})

    def list_vps(self, host: str | None = None) -> list[dict[str, Any]]:
        return self._ask("vps", "GET", "/vps", params={"host": host} if host else {})

    def show_vp(self, server: str) -> dict[str, Any]:
        """By id, or by the name the server was given at boot."""
        return self._ask("vp", "GET", f"/vps/{_quoted(self._server_id(server))}")

    def _server_id(self, server: str) -> str:
        if len(server) == 36 and _UUID_CHARACTERS.issuperset(server.lower()):
            return server
        found = [vp["server_id"] for vp in self.list_vps() if vp["name"] == server]
        if not found:
            raise NoSuchName(server)
        if len(found) > 1:
            raise AmbiguousName(server, found)
        return found[0]

    def _ask(self, key: str, method: str, path: str, **options: Any) -> Any:
        """What the answer has under `key`."""
        # The catalog may name the service's root or its first version.
        root = str(self._adapter.endpoint_override).rstrip("/").removesuffix("/v1")
        url = f"{root}/v1{path}"
        try:
            response = self._adapter.request(
                url, method, raise_exc=False, headers={"Accept": "application/json"}, **options
            )
        except ksa_exceptions.ConnectFailure as exc:
            raise Unreachable(root, str(exc)) from exc
        if response.status_code >= 400:
            raise Refused(response.status_code, _said(response))
        try:
            return response.json()[key]
        except (ValueError, KeyError, TypeError) as exc:
            raise Unreachable(root, "Something else answers there.") from exc


def _quoted(part: str) -> str:
    return quote(part, safe="")


def _said(response: requests.Response) -> str:
    """The API's own words; a proxy in between may have answered instead."""
    try:
        fault = response.json()["errors"][0]
        return "{title}: {detail} (HTTP {status}, {request_id})".format(**fault)
    except (ValueError, KeyError, IndexError, TypeError):
        return (
            f"HTTP {response.status_code} from {response.url}, not in vp-api's words: check that "
            "the endpoint in the catalog is vp-api's."
        )
