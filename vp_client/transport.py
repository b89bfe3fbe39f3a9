# SPDX-License-Identifier: Apache-2.0
"""One request after the other to vp-api: its address and version, its pages, and its faults as
exceptions. What may be asked for is the client's.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import requests
from keystoneauth1 import exceptions as ksa_exceptions
from keystoneauth1.adapter import Adapter

from vp_client.errors import LoginFailed, Refused, Unreachable

SERVICE_TYPE = "performance-isolation"
API_VERSION = "1.4"
"""The newest that this client knows how to show."""
PAGE = 1000
"""Rows per request; the API gives no more."""

Told = dict[str, Any]


class Page(NamedTuple):
    rows: list[Told]
    marker: str | None
    """Of the next page; None: this is the last."""


class Transport:
    def __init__(self, adapter: Adapter) -> None:
        self._adapter = adapter

    def page(self, key: str, path: str, asked: Told) -> Page:
        answer = self.request(key, "GET", path, params=asked)
        return Page(answer[key], _next_marker(answer))

    def list_all(self, key: str, path: str, limit: int | None, filters: Told) -> list[Told]:
        size = min(limit or PAGE, PAGE)
        return first(self.pages(key, path, {**given(filters), "limit": size}), limit)

    def history(self, path: str, limit: int | None, filters: Told) -> list[Told]:
        # Pages are minutes of time, of which most may be empty: one of as many as rows are wanted
        # would have to be asked for again and again.
        asked = {**given(filters), "limit": PAGE}
        return first(self.pages("history", f"{path}/history", asked), limit)

    def pages(
        self, key: str, path: str, asked: Told, method: str = "GET", **options: Any
    ) -> Iterator[list[Told]]:
        for answer in self.answers(key, path, asked, method, **options):
            yield answer[key]

    def answers(
        self, key: str, path: str, asked: Told, method: str = "GET", **options: Any
    ) -> Iterator[Told]:
        """Page by page, with all that stands beside the list `key`."""
        while True:
            answer = self.request(key, method, path, params=asked, **options)
            yield answer
            marker = _next_marker(answer)
            if marker is None:
                return
            asked = {**asked, "marker": marker}

    def ask(self, key: str, method: str, path: str, **options: Any) -> Told:
        told: Told = self.request(key, method, path, **options)[key]
        return told

    def request(
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


def first(pages: Iterable[list[Told]], limit: int | None) -> list[Told]:
    rows: list[Told] = []
    for page in pages:
        rows += page
        if limit is not None and len(rows) >= limit:
            return rows[:limit]
    return rows


def as_json(body: Mapping[str, Any]) -> Told:
    """A number that JSON does not have is vp-api's to refuse, not the library's."""
    return {"data": json.dumps(body), "headers": {"Content-Type": "application/json"}}


def given(filters: Told) -> Told:
    """Those that were given, as a query spells them."""
    return {name: _spelled(value) for name, value in filters.items() if value is not None}


def _spelled(value: Any) -> Any:
    return str(value).lower() if isinstance(value, bool) else value


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
