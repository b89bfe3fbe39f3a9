# SPDX-License-Identifier: Apache-2.0
"""The lab's network service: what Nova and whoever boots servers see of its ports."""

import io
import json
from urllib.parse import urlencode

import pytest

from testbed.lab import network_stub, settings
from testbed.lab.network_stub import Api, Ports

ALPHA, SERVER = "alpha", "11111111-1111-4111-8111-111111111111"
WANTED = {"network_id": settings.GUEST_NETWORK_ID, "tenant_id": ALPHA, "device_id": SERVER}


@pytest.fixture
def ask(tmp_path, monkeypatch):
    """Of the WSGI application: method, path, body and filters to status and what is told."""
    monkeypatch.setattr(network_stub, "API", Api(Ports(tmp_path / "ports.json")))

    def ask(method, path, body=None, **query):
        text = json.dumps(body).encode() if body else b""
        environ = {
            "REQUEST_METHOD": method,
            "PATH_INFO": path,
            "QUERY_STRING": urlencode(query, doseq=True),
            "CONTENT_LENGTH": str(len(text)),
            "wsgi.input": io.BytesIO(text),
        }
        statuses = []
        told = b"".join(network_stub.application(environ, lambda *one: statuses.append(one[0])))
        return int(statuses[0].split()[0]), json.loads(told) if told else None

    return ask


def create(ask, **about):
    status, told = ask("POST", "/v2.0/ports", {"port": WANTED | about})
    assert status == 201
    return told["port"]


def test_a_server_without_ports_has_none(ask):
    assert ask("GET", "/v2.0/ports", device_id=SERVER) == (200, {"ports": []})
    assert ask("GET", "/v2.0/floatingips") == (200, {"floatingips": []})
    assert ask("GET", "/v2.0/security-groups") == (200, {"security_groups": []})
    status, told = ask("GET", "")
    assert (status, told["versions"][0]["id"]) == (200, "v2.0")
    assert ask("GET", f"/v2.0/quotas/{ALPHA}")[1]["quota"]["port"] == -1


def test_the_network_is_found_by_its_id_and_is_everybodys(ask):
    for query, count in (
        ({"id": settings.GUEST_NETWORK_ID}, 1),
        ({"id": [SERVER, settings.GUEST_NETWORK_ID]}, 1),
        ({"shared": True}, 1),
        ({"tenant_id": ALPHA, "shared": False}, 0),
    ):
        assert len(ask("GET", "/v2.0/networks", **query)[1]["networks"]) == count
    [subnet] = ask("GET", "/v2.0/subnets", id=settings.GUEST_SUBNET_ID)[1]["subnets"]
    assert subnet["cidr"] == settings.NETWORK
    assert ask("GET", f"/v2.0/networks/{SERVER}")[0] == 404


def test_a_port_is_a_tap_with_an_address_of_its_own(ask):
    first, second = create(ask), create(ask)
    addresses = [port["fixed_ips"][0]["ip_address"] for port in (first, second)]
    assert addresses == ["10.77.0.211", "10.77.0.212"]
    assert first["binding:vif_type"] == "tap"
    assert first["mac_address"] != second["mac_address"]
    asked = create(ask, fixed_ips=[{"ip_address": "10.77.0.220"}])
    assert asked["fixed_ips"][0]["ip_address"] == "10.77.0.220"
    found = ask("GET", "/v2.0/ports", fixed_ips="ip_address=10.77.0.220")[1]["ports"]
    assert [port["id"] for port in found] == [asked["id"]]


def test_ports_are_found_by_their_server_and_project_and_gone_when_deleted(ask):
    port = create(ask)
    mine = {"tenant_id": ALPHA, "device_id": SERVER, "fields": "id"}
    assert len(ask("GET", "/v2.0/ports", **mine)[1]["ports"]) == 1
    assert ask("GET", "/v2.0/ports", **mine | {"tenant_id": "beta"})[1]["ports"] == []
    path = f"/v2.0/ports/{port['id']}"
    told = ask("PUT", path, {"port": {"device_id": "", "binding:host_id": None}})[1]["port"]
    assert (told["device_id"], told["fixed_ips"]) == ("", port["fixed_ips"])
    assert ask("DELETE", path) == (204, None)
    assert ask("GET", path)[0] == ask("DELETE", path)[0] == 404


def test_a_port_is_bound_to_the_host_that_its_server_is_migrated_to(ask):
    path = f"/v2.0/ports/{create(ask, **{'binding:host_id': 'vp1'})['id']}"
    status, told = ask("POST", f"{path}/bindings", {"binding": {"host": "vp2"}})
    assert (status, told["binding"]["status"]) == (201, "INACTIVE")
    assert told["binding"]["vif_type"] == "tap"
    assert ask("PUT", f"{path}/bindings/vp2/activate")[1]["binding"]["status"] == "ACTIVE"
    assert ask("GET", path)[1]["port"]["binding:host_id"] == "vp2"
    assert ask("DELETE", f"{path}/bindings/vp1")[0] == 204


def test_ports_outlive_the_service(tmp_path):
    file = tmp_path / "ports.json"
    port = Ports(file).create(WANTED)
    assert Ports(file).show(port["id"]) == port


def test_what_it_does_not_know_is_not_found(ask):
    assert ask("POST", "/v2.0/networks", {"network": {}})[0] == 404
    assert ask("GET", "/v3/ports")[0] == 404
