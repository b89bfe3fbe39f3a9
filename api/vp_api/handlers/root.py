# SPDX-License-Identifier: Apache-2.0
"""Version documents: what the API speaks, for anybody who asks."""

from typing import Any

import webob

from vp_api.seams import Services


def list_versions(request: webob.Request, services: Services) -> dict[str, Any]:
    return {"versions": [_version(request)]}


def show_version(request: webob.Request, services: Services) -> dict[str, Any]:
    return {"version": _version(request)}


def _version(request: webob.Request) -> dict[str, Any]:
    links = [{"rel": "self", "href": f"{request.application_url}/v1/"}]
    return {"id": "v1.0", "status": "CURRENT", "links": links}
