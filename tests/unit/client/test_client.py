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

VPS = [{"server_id": f"id-{n}", "name": name} for n, name in enumerate(("one", "twin", "twin"))]


class Canned:
    """Answers everything alike, and remembers what was asked."""

    def __init__(self, body="{}", status=200):
        self.asked = []
        self._body = body
        self._status = status

    @webob.dec.wsgify
    def __call__(self, request):
        self.asked.append(f"{request.method} {request.environ['PATH_INFO']}")
        return webob.Response(status=self._status, text=self._body)


@pytest.fixture
def client_of():
    """A client of one canned application; `suffix` is what the catalog adds to its root."""
    with contextlib.ExitStack() as stack:

        def make(canned, suffix=""):
            url = stack.enter_context(served(canned))
            return Client(Adapter(Session(auth=NoAuth()), endpoint_override=url + suffix))

        yield make


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_the_catalog_may_name_the_root_or_the_version(client_of, suffix):
    canned = Canned('{"vps": []}')
    assert client_of(canned, suffix).list_vps() == []
    assert canned.asked == ["GET /v1/vps"]


def test_a_name_that_is_given_twice(client_of):
    client = client_of(Canned(json.dumps({"vps": VPS})))
    with pytest.raises(AmbiguousName, match="Use the id of one: id-1, id-2"):
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
    with pytest.raises(Refused, match="check that the endpoint in the catalog is vp-api's"):
        client_of(Canned(body, status=502)).list_hosts()


@pytest.mark.parametrize("body", ["<html>Welcome</html>", "{}", "[]"])
def test_an_endpoint_of_another_service(client_of, body):
    with pytest.raises(Unreachable, match="correct the endpoint in the catalog"):
        client_of(Canned(body)).list_hosts()
