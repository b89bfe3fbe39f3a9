# SPDX-License-Identifier: Apache-2.0
"""Version documents: what the API speaks, for anybody who asks."""

from typing import Any

from vp_api.operation import Answer, Call
from vp_api.versions import NEWEST, OLDEST


def list_versions(call: Call) -> Answer:
    return {"versions": [_version(call)]}


def show_version(call: Call) -> Answer:
    return {"version": _version(call)}


def _version(call: Call) -> dict[str, Any]:
    links = [{"rel": "self", "href": f"{call.request.application_url}/v1/"}]
    return {
        "id": "v1.0",
        "status": "CURRENT",
        "min_version": str(OLDEST),
        "version": str(NEWEST),
        "links": links,
    }
