# SPDX-License-Identifier: Apache-2.0
"""Body, query and answer of /v1/what-if."""

from vp_api.schemas.base import (
    COUNT,
    ISOLATION,
    NAME,
    NUMBER,
    NUMBERS,
    STATE,
    TEXT,
    YES_NO,
    enum,
    list_of,
    nullable,
    obj,
    page_of,
    pages,
)

_FLAVOR = obj(
    {"vcpus": {"type": "integer", "minimum": 1, "maximum": 4096}},
    {
        "name": NAME,
        "image": NAME,
        "extra_specs": {
            "type": "object",
            "maxProperties": 256,
            "additionalProperties": {"type": "string", "maxLength": 255},
        },
    },
    "WhatIfFlavor",
)
QUERY = pages()
BODY = {
    "title": "WhatIf",
    "type": "object",
    "properties": {"server_id": NAME, "flavor": _FLAVOR},
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
}
"""Of a server that runs, or of one that would have such a flavor."""
_HOST = obj(
    {
        "host": TEXT,
        "is_accepted": YES_NO,
        "reason": enum("fits", "strict-loss-too-large", "unknown", "runs-here"),
        "meaning": TEXT,
        "domains": list_of(COUNT),
        "newcomer_ratio": nullable(NUMBER),
        "resident_ratio": nullable(NUMBER),
        "strict_ratio": nullable(NUMBER),
        "resource": nullable(TEXT),
        "by_resource": NUMBERS,
    },
    title="WhatIfHost",
)
"""`strict_ratio`: of the newcomer or a strict resident, what decides for a strict server."""
_NEWCOMER = obj(
    {
        "state": nullable(STATE),
        "source": enum("measured", "flavor", "learned", "unknown"),
        "isolation": ISOLATION,
        "vcpus": COUNT,
        "strict_max_hurt_ratio": NUMBER,
    },
    title="WhatIfNewcomer",
)
_PAGE = page_of("hosts", _HOST, "WhatIfAnswer")
ANSWER = {
    **_PAGE,
    "properties": {**_PAGE["properties"], "newcomer": _NEWCOMER},
    "required": [*_PAGE["required"], "newcomer"],
}
