# SPDX-License-Identifier: Apache-2.0
"""The REST client against answers that the application itself would not give."""

import contextlib
import json

import pytest
import webob
import webob.dec
from keystoneauth1.adapter import Adapter
from keystoneauth1.noauth import NoAuth
from keystoneauth1.session import Session

from tests.loopback import served
from vp_client.client import Client
from vp_client.errors import AmbiguousName, NoSuchName, Refused, Unreachable
from vp_client.transport import API_VERSION

VPS = [{"server_id": f"id-{n}", "name": name} for n, name in enumerate(("one", "twin", "twin"))]


class Canned:
    """Answers everything alike, and remembers what was asked."""

    def __init__(self, body="{}", status=200):
        self.asked = []
        self.versions = set()
        self._body = body
        self._status = status

    @webob.dec.wsgify
    def __call__(self, request):
        self.asked.append(f"{request.method} {request.environ['PATH_INFO']}")
        self.versions.add(request.headers.get("OpenStack-API-Version"))
        return webob.Response(status=self._status, text=self._body)


@pytest.fixture
def client_of():
    """A client of one canned application; `suffix` is what the catalog adds to its root."""
    with contextlib.ExitStack() as stack:

        def make(canned, suffix="", **about):
            url = stack.enter_context(served(canned))
            return Client(Adapter(Session(auth=NoAuth()), endpoint_override=url + suffix), **about)

        yield make


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_the_catalog_may_name_the_root_or_the_version(client_of, suffix):
    canned = Canned('{"vps": []}')
    assert client_of(canned, suffix).list_vps() == []
    assert canned.asked == ["GET /v1/vps"]
    assert canned.versions == {f"performance-isolation {API_VERSION}"}


class Pages:
    """Ten rows, and links by an address that only the API itself can reach."""

    def __init__(self):
        self.asked = []

    @webob.dec.wsgify
    def __call__(self, request):
        asked = dict(request.params)
        self.asked.append(asked)
        start, limit = int(asked.get("marker", 0)), min(int(asked["limit"]), 4)
        end = start + limit
        link = f"http://behind.invalid/v1/actions?limit={limit}&marker={end}&host=h"
        rows = [{"id": f"a-{n}"} for n in range(start, min(end, 10))]
        links = [{"rel": "next", "href": link}] if end < 10 else []
        return webob.Response(json={"actions": rows, "links": links})


def test_a_list_of_many_pages(client_of):
    pages = Pages()
    told = client_of(pages).list_actions(host="h", is_stale=True, result=None)
    assert [one["id"] for one in told] == [f"a-{n}" for n in range(10)]
    assert [one.get("marker") for one in pages.asked] == [None, "4", "8"]
    filters = {"host": "h", "is_stale": "true", "limit": "1000"}
    assert all({k: v for k, v in one.items() if k != "marker"} == filters for one in pages.asked)


def test_one_page_and_the_marker_of_the_next(client_of):
    pages = Pages()
    client = client_of(pages)
    rows, marker = client.page("actions", 4, host="h")
    assert ([one["id"] for one in rows], marker) == (["a-0", "a-1", "a-2", "a-3"], "4")
    assert client.page("actions", 4, "8", host="h").marker is None
    assert [one.get("marker") for one in pages.asked] == [None, "8"]


@pytest.mark.parametrize(("limit", "requests"), [(1, 1), (4, 1), (5, 2), (99, 3)])
def test_no_more_is_asked_than_wanted(client_of, limit, requests):
    pages = Pages()
    told = client_of(pages).list_actions(limit)
    assert len(told) == min(limit, 10)
    assert len(pages.asked) == requests


class Minutes:
    """A month of which the last day was recorded, told as many minutes at a time as asked for."""

    def __init__(self):
        self.requests = 0

    @webob.dec.wsgify
    def __call__(self, request):
        self.requests += 1
        start, end, recorded = int(request.params.get("marker", 0)), 30 * 1440, 29 * 1440
        after = min(start + int(request.params["limit"]), end)
        rows = [{"at": minute} for minute in range(max(start, recorded), after)]
        following = {"rel": "next", "href": f"http://behind.invalid/?marker={after}"}
        return webob.Response(json={"history": rows, "links": [following] if after < end else []})


def test_empty_minutes_are_not_asked_for_one_by_one(client_of):
    minutes = Minutes()
    told = client_of(minutes).host_history("lab-1", limit=2)
    assert [one["at"] for one in told] == [29 * 1440, 29 * 1440 + 1]
    assert minutes.requests <= 50


@webob.dec.wsgify
def breaking_off(request):
    """As where somebody killed vp-api in the middle of an answer."""
    packed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
    return webob.Response(body=b"not packed at all", headers=packed)


def test_an_answer_that_breaks_off(client_of):
    with pytest.raises(Unreachable, match="does not answer"):
        client_of(breaking_off).list_hosts()


def test_novas_name_of_a_server_comes_first(client_of):
    canned = Canned('{"vp": {}}')
    client_of(canned, find_servers={"web": ["id-of-web"]}.get).show_vp("web")
    assert canned.asked == ["GET /v1/vps/id-of-web"]


def test_a_name_that_is_given_twice(client_of):
    client = client_of(Canned(json.dumps({"vps": VPS})))
    with pytest.raises(AmbiguousName, match="Give the id of one of them: id-1, id-2"):
        client.show_vp("twin")


def test_a_name_that_nobody_has(client_of):
    with pytest.raises(NoSuchName, match="openstack vp list"):
        client_of(Canned(json.dumps({"vps": VPS}))).show_vp("three")


def test_a_host_name_cannot_leave_its_place_in_the_path(client_of):
    canned = Canned('{"host": {}}')
    client_of(canned).show_host("../vps?x")
    assert canned.asked == ["GET /v1/hosts/../vps?x"]


@pytest.mark.parametrize("body", ["<html>Bad Gateway</html>", "[]", '{"errors": []}'])
def test_an_error_of_somebody_in_between(client_of, body):
    with pytest.raises(Refused, match="Check the endpoint of vp-api in the catalog"):
        client_of(Canned(body, status=502)).list_hosts()


@pytest.mark.parametrize("body", ["<html>Welcome</html>", "{}", "[]"])
def test_an_endpoint_of_another_service(client_of, body):
    with pytest.raises(Unreachable, match="correct its endpoint in the catalog"):
        client_of(Canned(body)).list_hosts()
