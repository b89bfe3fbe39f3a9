# SPDX-License-Identifier: Apache-2.0
"""As much of Nova as Horizon asks for the page of an instance, for the list of flavors, and for
names. Of Neutron it insists too for that page: here that has nothing."""

import re
from dataclasses import dataclass, field
from typing import Any

import webob
import webob.dec
import webob.exc

from tests.unit.api import cloud

FLAVOR = {
    "id": "1",
    "name": "m1.quiet",
    "vcpus": 1,
    "ram": 512,
    "disk": 1,
    "OS-FLV-EXT-DATA:ephemeral": 0,
    "swap": "",
    "os-flavor-access:is_public": True,
    "extra_specs": {"vp:isolation": "strict"},
    "links": [],
}
AGGREGATE = "gpu"
RENAMED = "shop-db"
"""The first server's name now."""
FLAVORS = [
    FLAVOR,
    {**FLAVOR, "id": "2", "name": "m1.plain", "extra_specs": {}},
    {
        **FLAVOR,
        "id": "3",
        "name": "m1.web",
        "extra_specs": {"vp:isolation": "soft", "vp:priority": "2", "vp:class": "latency-critical"},
    },
    {**FLAVOR, "id": "4", "name": "m1.wrong", "extra_specs": {"vp:isolation": "absolute"}},
]


@dataclass
class Nova:
    projects: dict[str, str] = field(default_factory=dict)
    """Of servers, by id."""

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        path = request.path_info.rstrip("/")
        if path.startswith("/network/v2.0/"):
            resource = path.rpartition("/")[2].replace("-", "_")
            return webob.Response(json={resource: []})
        if path in ("", "/v2.1"):
            return webob.Response(json=_versions(request.application_url, is_one=bool(path)))
        match path.removeprefix("/v2.1/").split("/"):
            case ["servers", server_id] if server_id in self.projects:
                return webob.Response(json={"server": self._server(server_id)})
            case ["servers", _, "os-volume_attachments"]:
                return webob.Response(json={"volumeAttachments": []})
            case ["servers"]:
                return webob.Response(json={"servers": self._named(request.GET["name"])})
            case ["os-aggregates"]:
                return webob.Response(json={"aggregates": [{"id": 1, "name": AGGREGATE}]})
            case ["flavors", _, "os-extra_specs"]:
                return webob.Response(json={"extra_specs": {}})
            case ["flavors", "detail"]:
                return webob.Response(json={"flavors": FLAVORS})
        raise webob.exc.HTTPNotFound()

    def _named(self, pattern: str) -> list[dict[str, str]]:
        """A database that takes no pattern matches more than is asked for."""
        names = (RENAMED, f"{RENAMED}-2")
        is_found = re.search(pattern, RENAMED)
        return [{"id": one, "name": name} for name in names for one in self.projects if is_found]

    def _server(self, server_id: str) -> dict[str, Any]:
        return {
            "id": server_id,
            "name": "victim",
            "status": "ACTIVE",
            "tenant_id": self.projects[server_id],
            "user_id": cloud.ALPHA,
            "image": "",
            "flavor": {"original_name": FLAVOR["name"], "vcpus": 1, "ram": 512, "disk": 1},
            "addresses": {},
            "metadata": {},
            "created": "2026-01-01T00:00:00Z",
            "updated": "2026-01-01T00:00:00Z",
            "OS-EXT-STS:task_state": None,
            "OS-EXT-STS:power_state": 1,
            "OS-EXT-STS:vm_state": "active",
            "OS-EXT-AZ:availability_zone": "nova",
            "key_name": None,
            "locked": False,
        }


def _versions(url: str, *, is_one: bool) -> dict[str, Any]:
    told = {
        "id": "v2.1",
        "status": "CURRENT",
        "version": "2.90",
        "min_version": "2.1",
        "updated": "2013-07-23T11:33:21Z",
        "links": [{"rel": "self", "href": f"{url}/v2.1/"}],
    }
    return {"version": told} if is_one else {"versions": [told]}
