# SPDX-License-Identifier: Apache-2.0
"""REST of vp-api as tests ask it: a method for each request, tempest's exceptions for errors."""

import json
from typing import Any
from urllib.parse import quote, urlencode

from tempest.lib.common import rest_client

HEADER = "OpenStack-API-Version"
SERVICE_TYPE = "performance-isolation"
JSON = {"Accept": "application/json", "Content-Type": "application/json"}

Answer = dict[str, Any]


class PerformanceIsolationClient(rest_client.RestClient):
    """`microversion`: asked for with each request; None: none is named."""

    microversion: str | None = None

    def get_headers(self, *types: Any, **named: Any) -> dict[str, str]:
        headers: dict[str, str] = super().get_headers(*types, **named)
        if self.microversion is None:
            return headers
        return {**headers, HEADER: f"{SERVICE_TYPE} {self.microversion}"}

    def ask(self, method: str, *path: str, body: Any = None, **query: Any) -> Answer:
        """An answer with its headers as `response`. Raises tempest's exception of the status."""
        response, text = self.request(
            method, url_of(*path, **query), body=None if body is None else json.dumps(body)
        )
        self.expected_success(200, response.status)
        answer: Answer = rest_client.ResponseBody(response, json.loads(text))
        return answer

    def ask_without_token(self, *path: str, microversion: str | None = None) -> tuple[Any, Answer]:
        """The response, whose `status` may be any, and what it says."""
        word = {} if microversion is None else {HEADER: f"{SERVICE_TYPE} {microversion}"}
        url = f"{self.base_url.rstrip('/')}/{url_of(*path)}"
        response, text = self.raw_request(url, "GET", headers={**JSON, **word})
        return response, json.loads(text)

    def list_hosts(self, **query: Any) -> Answer:
        return self.ask("GET", "v1", "hosts", **query)

    def show_host(self, host: str) -> Answer:
        return self._one("host", "GET", "v1", "hosts", host)

    def set_host_mode(self, host: str, mode: str | None) -> Answer:
        return self._one("host", "PATCH", "v1", "hosts", host, body={"mode": mode})

    def show_host_history(self, host: str, **query: Any) -> Answer:
        return self.ask("GET", "v1", "hosts", host, "history", **query)

    def list_modes(self) -> Answer:
        return self.ask("GET", "v1", "modes")

    def set_aggregate_mode(self, aggregate: str, mode: str | None) -> Answer:
        body = {"aggregate": aggregate, "mode": mode}
        return self._one("mode", "PUT", "v1", "modes", "aggregates", body=body)

    def list_vps(self, **query: Any) -> Answer:
        return self.ask("GET", "v1", "vps", **query)

    def show_vp(self, server_id: str) -> Answer:
        return self._one("vp", "GET", "v1", "vps", server_id)

    def change_vp(self, server_id: str, **overrides: Any) -> Answer:
        return self._one("vp", "PATCH", "v1", "vps", server_id, body=overrides)

    def report_latency(self, server_id: str, **report: Any) -> Answer:
        return self.ask("PUT", "v1", "vps", server_id, "latency", body=report)

    def show_vp_history(self, server_id: str, **query: Any) -> Answer:
        return self.ask("GET", "v1", "vps", server_id, "history", **query)

    def list_vp_actions(self, server_id: str, **query: Any) -> Answer:
        return self.ask("GET", "v1", "vps", server_id, "actions", **query)

    def list_actions(self, **query: Any) -> Answer:
        return self.ask("GET", "v1", "actions", **query)

    def show_action(self, action_id: str) -> Answer:
        return self._one("action", "GET", "v1", "actions", action_id)

    def order_action(self, action_id: str, verb: str) -> Answer:
        """`verb`: accept, reject or undo."""
        return self._one("action", "POST", "v1", "actions", action_id, verb, body={})

    def list_escalations(self, **query: Any) -> Answer:
        return self.ask("GET", "v1", "escalations", **query)

    def show_escalation(self, escalation_id: str) -> Answer:
        return self._one("escalation", "GET", "v1", "escalations", escalation_id)

    def accept_escalation(self, escalation_id: str) -> Answer:
        return self._one(
            "escalation", "POST", "v1", "escalations", escalation_id, "accept", body={}
        )

    def list_usage(self, **query: Any) -> Answer:
        return self.ask("GET", "v1", "usage", **query)

    def ask_what_if(self, **asked: Any) -> Answer:
        return self.ask("POST", "v1", "what-if", body=asked)

    def list_overlays(self, **query: Any) -> Answer:
        return self.ask("GET", "v1", "overlays", **query)

    def create_overlay(self, **fields: Any) -> Answer:
        return self._one("overlay", "POST", "v1", "overlays", body=fields)

    def show_overlay(self, overlay_id: str) -> Answer:
        return self._one("overlay", "GET", "v1", "overlays", overlay_id)

    def change_overlay(self, overlay_id: str, **fields: Any) -> Answer:
        return self._one("overlay", "PATCH", "v1", "overlays", overlay_id, body=fields)

    def delete_overlay(self, overlay_id: str) -> Answer:
        return self._one("overlay", "DELETE", "v1", "overlays", overlay_id)

    def add_overlay_servers(self, overlay_id: str, *servers: str) -> Answer:
        body = {"servers": list(servers)}
        return self._one("overlay", "POST", "v1", "overlays", overlay_id, "servers", body=body)

    def remove_overlay_server(self, overlay_id: str, server_id: str) -> Answer:
        path = ("v1", "overlays", overlay_id, "servers", server_id)
        return self._one("overlay", "DELETE", *path)

    def call_overlay(self, overlay_id: str, **call: Any) -> Answer:
        return self._one("call", "POST", "v1", "overlays", overlay_id, "calls", body=call)

    def _one(self, name: str, method: str, *path: str, body: Any = None) -> Answer:
        answer: Answer = self.ask(method, *path, body=body)[name]
        return answer


def url_of(*path: str, **query: Any) -> str:
    url = "/".join(quote(part, safe="") for part in path)
    return f"{url}?{urlencode(query)}" if query else url
