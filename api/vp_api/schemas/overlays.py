# SPDX-License-Identifier: Apache-2.0
"""Queries, bodies and answers of /v1/overlays."""

from nova_vp.core.types.overlay import ArbitrationClass, CallResource, Direction, Nack, Verb
from nova_vp.registered_overlay import MOST_NAME
from nova_vp.wire.overlays import CALL_ID, ISLAND_NAME, LEASE_S, MOST_CPUS, MOST_UNIT, TARGET
from nova_vp.wire.schema_types import MAX_PRIORITY, UUID
from vp_api.schemas.base import (
    COUNT,
    END,
    MINUTE,
    NAME,
    NOT_STORED,
    NUMBER,
    TEXT,
    TIME,
    YES_NO,
    Schema,
    enum,
    list_of,
    nullable,
    obj,
    page_of,
    pages,
)

MOST_SERVERS_NAMED = 1000
"""In one request; how many may be in an overlay is an option."""
_NAME: Schema = {**NAME, "maxLength": MOST_NAME}
_UNIT: Schema = {
    "type": "string",
    "maxLength": MOST_UNIT,
    "pattern": f"^[^{NOT_STORED}]*{END}",
}
_SERVERS: Schema = {**list_of(UUID), "maxItems": MOST_SERVERS_NAMED}
_PRIORITY: Schema = {"type": "integer", "minimum": 0, "maximum": MAX_PRIORITY}
_ARBITRATION = enum(*(one.value for one in ArbitrationClass))

LIST_QUERY = pages(project_id=NAME)
_SETTINGS = {
    "target": nullable(TARGET),
    "target_unit": _UNIT,
    "priority": _PRIORITY,
    "arbitration": _ARBITRATION,
}
CREATE = obj(
    {"name": _NAME},
    {"project_id": {**NAME, "maxLength": 64}, "servers": _SERVERS, **_SETTINGS},
    title="OverlayCreation",
)
CHANGE = {**obj({}, {"name": _NAME, **_SETTINGS}, title="OverlayChange"), "minProperties": 1}
ADD_SERVERS = obj({"servers": {**_SERVERS, "minItems": 1}}, title="OverlayServers")
CALL = obj(
    {"verb": enum(*(one.value for one in Verb))},
    {
        "id": CALL_ID,
        "resource": enum(*(one.value for one in CallResource)),
        "direction": enum(*(one.value for one in Direction)),
        "server_id": nullable(UUID),
        "cpus": {"type": "integer", "minimum": 1, "maximum": MOST_CPUS},
        "island": {**ISLAND_NAME, "minLength": 1},
        "lease_s": nullable(LEASE_S),
    },
    title="OverlayCall",
)
"""`id`: a call that is repeated with it is carried out once; absent: one is made up."""

_SERVER = {"server_id": TEXT, "name": nullable(TEXT), "is_reported": YES_NO}
_TOLD = {
    "id": TEXT,
    "name": TEXT,
    "project_id": TEXT,
    "is_group": YES_NO,
    "priority": COUNT,
    "arbitration": _ARBITRATION,
    "target": nullable(NUMBER),
    "target_unit": TEXT,
    "changed_at": nullable(TIME),
}
"""`is_group`: it follows from `vp:group`, and is changed by flavors alone."""
_HOLDS = {
    "holds": nullable(
        obj(
            {
                "borrowed_cpus": COUNT,
                "boosted": list_of(TEXT),
                "credit_ratio": NUMBER,
                "granted": COUNT,
                "refused": COUNT,
            },
            title="OverlayHolds",
        )
    )
}
"""null: no host of its servers says."""
_TENANT_SERVER = obj(_SERVER, title="TenantOverlayServer")
_FULL_SERVER = obj({**_SERVER, "host": nullable(TEXT)}, title="OverlayServer")
_TENANT = {**_TOLD, "changed_at": nullable(MINUTE), "servers": list_of(_TENANT_SERVER)}
_FULL = {**_TOLD, "servers": list_of(_FULL_SERVER), "changed_by": nullable(TEXT)}

LIST_ANSWER = page_of("overlays", obj(_FULL, title="OverlaySummary"), "OverlayList")
TENANT_LIST_ANSWER = page_of(
    "overlays", obj(_TENANT, title="TenantOverlaySummary"), "TenantOverlayList"
)
SHOW_ANSWER = obj({"overlay": obj({**_FULL, **_HOLDS}, title="Overlay")})
TENANT_SHOW_ANSWER = obj({"overlay": obj({**_TENANT, **_HOLDS}, title="TenantOverlay")})
DELETE_ANSWER = obj({"overlay": obj({"id": TEXT, "is_deleted": YES_NO}, title="DeletedOverlay")})
CALL_ANSWER = obj(
    {
        "call": obj(
            {
                "id": TEXT,
                "overlay_id": TEXT,
                "verb": TEXT,
                "granted": YES_NO,
                "answers": list_of(
                    obj(
                        {
                            "server_ids": list_of(TEXT),
                            "granted": YES_NO,
                            "nack": {"enum": [None, *(one.value for one in Nack)]},
                            "detail": TEXT,
                            "lease_s": nullable(NUMBER),
                        },
                        title="OverlayCallAnswer",
                    )
                ),
            },
            title="AnsweredOverlayCall",
        )
    }
)
"""`granted`: by all who were asked. `answers`: one for servers that are together."""
