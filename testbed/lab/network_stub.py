# SPDX-License-Identifier: Apache-2.0
"""A network service of one network: what Nova asks of the Network API for servers with and without
ports on it. Stands in for neutron, of which the lab needs nothing else.

The network is flat: a server's address is one of the lab's own network, and its tap is on the
bridge of its host (`host-network`). Nova makes the tap (VIF type `tap`). No security groups, DHCP
or events; whoever asks is believed.
"""

import json
import re
import threading
import uuid
from collections.abc import Callable, Iterable
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import parse_qs

from testbed.lab import settings

EXTENSIONS = ("binding", "binding-extended", "port-resource-request", "standard-attr-segment")
QUOTAS = ("network", "port", "floatingip", "security_group", "security_group_rule")
SAVED = settings.RUN / "network-ports.json"
FIRST_ADDRESS, LAST_ADDRESS = 211, 254
"""In the lab's network; hosts have lower numbers."""
BINDING = {"binding:vif_type": "tap", "binding:vif_details": {}, "binding:vnic_type": "normal"}
NETWORK = {
    "id": settings.GUEST_NETWORK_ID,
    "name": settings.GUEST_NETWORK,
    "tenant_id": "",
    "project_id": "",
    "shared": True,
    "admin_state_up": True,
    "status": "ACTIVE",
    "mtu": 1500,
    "port_security_enabled": False,
    "router:external": False,
    "subnets": [settings.GUEST_SUBNET_ID],
}
SUBNET = {
    "id": settings.GUEST_SUBNET_ID,
    "network_id": settings.GUEST_NETWORK_ID,
    "name": settings.GUEST_NETWORK,
    "cidr": settings.NETWORK,
    "ip_version": 4,
    "gateway_ip": None,
    "enable_dhcp": False,
    "dns_nameservers": [],
    "host_routes": [],
}
Body = dict[str, Any]


class NotFound(Exception):
    """Of what the path names."""


class Ports:
    """Thread-safe; kept in a file, since Nova believes in its ports for as long as a server is."""

    def __init__(self, file: Path = SAVED) -> None:
        self._file = file
        self._lock = threading.RLock()
        self._by_id: dict[str, Body] = json.loads(file.read_text()) if file.exists() else {}

    def all(self) -> list[Body]:
        with self._lock:
            return list(self._by_id.values())

    def show(self, port_id: str) -> Body:
        with self._lock:
            if port_id not in self._by_id:
                raise NotFound(port_id)
            return self._by_id[port_id]

    def create(self, asked: Body) -> Body:
        with self._lock:
            port_id = str(uuid.uuid4())
            project = asked.get("project_id") or asked.get("tenant_id") or ""
            self._by_id[port_id] = {
                "id": port_id,
                "name": "",
                "network_id": NETWORK["id"],
                "mac_address": _mac_of(port_id),
                "admin_state_up": True,
                "status": "ACTIVE",
                "device_id": "",
                "device_owner": "",
                "security_groups": [],
                "binding:host_id": "",
                "binding:profile": {},
                **BINDING,
                **asked,
                "tenant_id": project,
                "project_id": project,
                "fixed_ips": [self._fixed_ip(asked)],
            }
            return self._saved(port_id)

    def update(self, port_id: str, asked: Body) -> Body:
        with self._lock:
            self.show(port_id).update(asked)
            return self._saved(port_id)

    def delete(self, port_id: str) -> None:
        with self._lock:
            self.show(port_id)
            del self._by_id[port_id]
            self._save()

    def _fixed_ip(self, asked: Body) -> Body:
        wanted = (asked.get("fixed_ips") or [{}])[0].get("ip_address")
        return {"subnet_id": SUBNET["id"], "ip_address": wanted or self._free_address()}

    def _free_address(self) -> str:
        taken = {ip["ip_address"] for port in self._by_id.values() for ip in port["fixed_ips"]}
        first = IPv4Network(settings.NETWORK).network_address
        numbers = range(FIRST_ADDRESS, LAST_ADDRESS + 1)
        addresses = (str(IPv4Address(int(first) + number)) for number in numbers)
        return next(one for one in addresses if one not in taken)

    def _saved(self, port_id: str) -> Body:
        self._save()
        return self._by_id[port_id]

    def _save(self) -> None:
        fresh = self._file.with_suffix(".new")
        fresh.write_text(json.dumps(self._by_id))
        fresh.replace(self._file)


def _mac_of(port_id: str) -> str:
    """Of those that are given out locally; Nova and neutron begin theirs alike."""
    return ":".join(("fa", "16", "3e", port_id[0:2], port_id[2:4], port_id[4:6]))


class Request(NamedTuple):
    body: Body
    """Without the name of what is asked for."""
    query: dict[str, list[str]]


class Api:
    """Routes: method, path, answer. Each is given what the path names, and the request."""

    def __init__(self, ports: Ports) -> None:
        self._ports = ports
        self._routes: tuple[tuple[str, str, Callable[..., Body]], ...] = (
            ("GET", "/v2.0", lambda asked: {"resources": []}),
            ("GET", "/v2.0/extensions", self._extensions),
            ("GET", "/v2.0/quotas/.*", lambda asked: {"quota": dict.fromkeys(QUOTAS, -1)}),
            ("GET", "/v2.0/networks", self._listed("networks", lambda: [NETWORK])),
            ("GET", "/v2.0/subnets", self._listed("subnets", lambda: [SUBNET])),
            ("GET", "/v2.0/ports", self._listed("ports", ports.all)),
            ("GET", f"/v2.0/networks/{NETWORK['id']}", lambda asked: {"network": NETWORK}),
            ("GET", f"/v2.0/subnets/{SUBNET['id']}", lambda asked: {"subnet": SUBNET}),
            ("POST", "/v2.0/ports", lambda asked: {"port": ports.create(asked.body)}),
            ("GET", "/v2.0/ports/([^/]+)", lambda asked, port: {"port": ports.show(port)}),
            ("PUT", "/v2.0/ports/([^/]+)", self._update),
            ("DELETE", "/v2.0/ports/([^/]+)", self._delete),
            ("POST", "/v2.0/ports/([^/]+)/bindings", self._bind),
            ("PUT", "/v2.0/ports/([^/]+)/bindings/([^/]+)/activate", self._activate),
            ("GET", "/v2.0/ports/([^/]+)/bindings/([^/]+)", self._binding),
            ("DELETE", "/v2.0/ports/([^/]+)/bindings/([^/]+)", lambda asked, port, host: {}),
            ("GET", "/v2.0/([a-z_-]+)", lambda asked, kind: {kind.replace("-", "_"): []}),
        )

    def answer(self, method: str, path: str, asked: Request) -> Body:
        """Raises NotFound."""
        for its_method, pattern, route in self._routes:
            found = re.fullmatch(pattern, path)
            if found and method == its_method:
                return route(asked, *found.groups())
        raise NotFound(path)

    def _extensions(self, asked: Request) -> Body:
        return {"extensions": [_extension(alias) for alias in EXTENSIONS]}

    def _listed(self, name: str, rows: Callable[[], list[Body]]) -> Callable[[Request], Body]:
        return lambda asked: {name: [row for row in rows() if _fits(row, asked.query)]}

    def _update(self, asked: Request, port: str) -> Body:
        return {"port": self._ports.update(port, asked.body)}

    def _delete(self, asked: Request, port: str) -> Body:
        self._ports.delete(port)
        return {}

    def _bind(self, asked: Request, port: str) -> Body:
        """To a second host, while the server is migrated there."""
        return self._binding(asked, port, asked.body["host"])

    def _binding(self, asked: Request, port: str, host: str) -> Body:
        known = self._ports.show(port)
        is_active = known["binding:host_id"] == host
        told = {name.removeprefix("binding:"): value for name, value in BINDING.items()}
        status = "ACTIVE" if is_active else "INACTIVE"
        return {"binding": {"host": host, "profile": {}, "status": status, **told}}

    def _activate(self, asked: Request, port: str, host: str) -> Body:
        self._ports.update(port, {"binding:host_id": host})
        return self._binding(asked, port, host)


def _fits(row: Body, query: dict[str, list[str]]) -> bool:
    """As neutron filters; of `fields` and what it does not know it takes no notice."""
    for name, wanted in query.items():
        if name == "fixed_ips":
            addresses = {f"ip_address={ip['ip_address']}" for ip in row.get(name, ())}
            if not addresses & set(wanted):
                return False
        elif name in row and name != "fields" and str(row[name]) not in wanted:
            return False
    return True


def _extension(alias: str) -> Body:
    updated = "2020-01-01T00:00:00-00:00"
    return {"alias": alias, "name": alias, "description": alias, "links": [], "updated": updated}


API = Api(Ports())


def application(environ: dict, start_response: Callable) -> Iterable[bytes]:
    path = environ.get("PATH_INFO", "").rstrip("/")
    status, body = _answered(path, environ)
    text = json.dumps(body).encode() if body else b""
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(text)))]
    start_response(status, headers)
    return [text]


def _answered(path: str, environ: dict) -> tuple[str, Body]:
    method = environ["REQUEST_METHOD"]
    if path == "" and method == "GET":
        link = {"rel": "self", "href": f"http://{environ.get('HTTP_HOST', '')}/v2.0/"}
        return "200 OK", {"versions": [{"id": "v2.0", "status": "CURRENT", "links": [link]}]}
    try:
        body = API.answer(method, path, _request(environ))
    except NotFound:
        error = {"type": "NotFound", "message": path, "detail": ""}
        return "404 Not Found", {"NeutronError": error}
    made = {"POST": "201 Created", "DELETE": "204 No Content"}
    return made.get(method, "200 OK"), body


def _request(environ: dict) -> Request:
    length = int(environ.get("CONTENT_LENGTH") or 0)
    told = json.loads(environ["wsgi.input"].read(length)) if length else {}
    body = next(iter(told.values())) if told else {}
    return Request(body, parse_qs(environ.get("QUERY_STRING", "")))
