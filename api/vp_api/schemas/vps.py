# SPDX-License-Identifier: Apache-2.0
"""Queries, bodies and answers of /v1/vps: the tenant's beside the operator's."""

from typing import Any

from nova_vp.core.types.service_level import ServiceClass
from nova_vp.db.serialization import METRICS
from nova_vp.vp_group import METRICS as COMBINED
from nova_vp.wire import CPU_RATIOS
from nova_vp.wire.schema_types import LEVELS
from vp_api.schemas import actions, modes
from vp_api.schemas.base import (
    COUNT,
    COUNTS,
    ISOLATION,
    KIND,
    MINUTE,
    MODE,
    NAME,
    NUMBER,
    RATIO,
    SERVER,
    STATE,
    TEXT,
    TIME,
    YES_NO,
    list_of,
    nullable,
    obj,
    page_of,
    pages,
    query,
    sort,
)

_REPORTED = {
    "state": nullable(STATE),
    "since": nullable(TIME),
    "hurt_by_neighbour": nullable(YES_NO),
}
_WHO = {"server_id": TEXT, "name": TEXT, "project_id": TEXT}
AGE = {"reported_at": TIME, "age_s": COUNT, "is_stale": YES_NO}
NOW = {**_REPORTED, "incomplete": nullable(TEXT)}
_SUMMARY = {**_WHO, "host": TEXT, "isolation": ISOLATION, **AGE, **NOW}
DEGRADATION = obj(
    {
        "ratio": nullable(RATIO),
        "kind": nullable(KIND),
        "since": nullable(TIME),
        "response": nullable(TEXT),
    },
    title="Degradation",
)
TENANT_DEGRADATION = obj(
    {"percent": nullable(COUNT), "since": nullable(MINUTE), "response": nullable(TEXT)},
    title="TenantDegradation",
)
_SINCE_1_4 = {"degradation": nullable(DEGRADATION)}
_TENANT_SINCE_1_4 = {"degradation": nullable(TENANT_DEGRADATION)}
ON_HOST = obj({**_SUMMARY, "domains": list_of(COUNT)}, _SINCE_1_4, "VpOnHost")
METRICS_NOW = obj(dict.fromkeys(METRICS, NUMBER), title="Metrics")
INTERFERENCE = obj(
    {
        "kind": KIND,
        "meaning": TEXT,
        "since": nullable(TIME),
        "suspects": list_of(obj({"server_id": TEXT, "name": nullable(TEXT), "rise_per_s": NUMBER})),
        "refused": list_of(actions.ALTERNATIVE),
    },
    title="Interference",
)
UNMANAGED = obj({"reason": TEXT, "detail": TEXT}, title="Unmanaged")
_CPU_USE = obj(dict.fromkeys(CPU_RATIOS, NUMBER), title="CpuUse")
_MEMBER = {"server_id": TEXT, "name": TEXT}
_TENANT_GROUP = {
    "servers": list_of(obj(_MEMBER, title="TenantMember")),
    "measured_servers": COUNT,
    "state": nullable(STATE),
}
TENANT_GROUP_STATE = obj(_TENANT_GROUP, title="TenantGroupState")
GROUP_METRICS = obj(dict.fromkeys(COMBINED, NUMBER), title="GroupMetrics")
GROUP_STATE = obj(
    {
        **_TENANT_GROUP,
        "servers": list_of(obj({**_MEMBER, "host": TEXT}, title="Member")),
        "metrics": nullable(GROUP_METRICS),
    },
    title="GroupState",
)
_FIGURES = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "additionalProperties": {"type": ["number", "string", "null"]},
    },
}
"""By controller, what it tells of a server, by the name of each figure."""
_CLASS = {"class": {"enum": [*(one.value for one in ServiceClass), "unknown"]}}
_TARGET = {"latency_target_ms": nullable(NUMBER)}


def _service(moment: dict[str, Any], title: str) -> dict[str, Any]:
    reported = obj({"at": moment, "latency_ms": NUMBER, "load": nullable(NUMBER)})
    return obj(
        {
            **_CLASS,
            **_TARGET,
            "latency_percentile": NUMBER,
            "max_load": nullable(NUMBER),
            "may_suspend": YES_NO,
            "reported": nullable(reported),
            "used": COUNT,
            "ignored": COUNTS,
        },
        title=title,
    )


SERVICE, TENANT_SERVICE = _service(TIME, "Service"), _service(MINUTE, "TenantService")
"""`used`, `ignored`: how many reports of its application were used on its host, and how many not,
by reason."""
LISTED_SERVICE = obj({**_CLASS, **_TARGET, "latency_ms": nullable(NUMBER)}, title="ListedService")
_SINCE_1_1 = {"cpu_use": nullable(_CPU_USE), "figures": _FIGURES}
_LAST_KNOWN = {
    "at": TIME,
    **NOW,
    "metrics": nullable(METRICS_NOW),
    "interference": nullable(INTERFERENCE),
}
MEMORY_MOVE = obj(
    {
        "server": SERVER,
        "to": TEXT,
        "moved_kib": COUNT,
        "left_kib": COUNT,
        "is_over": YES_NO,
        "problem": TEXT,
    },
    title="MemoryMove",
)
ASKED = obj(
    {
        "id": TEXT,
        "at": nullable(TIME),
        "since": nullable(TIME),
        "victim": SERVER,
        "kind": KIND,
        "meaning": TEXT,
        "evidence": {"type": "object", "additionalProperties": NUMBER},
        "rejected": list_of(actions.ALTERNATIVE),
    },
    title="ReportedEscalation",
)
UNDER_WAY = {"memory_moves": list_of(MEMORY_MOVE), "escalations": list_of(ASKED)}
PRIORITY = {"type": "integer", "minimum": 0, "maximum": 9}
_OVERRIDE = {
    "mode": nullable(MODE),
    "opt_out": YES_NO,
    "priority": nullable(PRIORITY),
    "exempt": YES_NO,
}
_LEVELS = {name: nullable(schema) for name, schema in LEVELS.items()}
"""Since 1.2."""
_BY = {"by": nullable(TEXT), "at": nullable(TIME)}
OVERRIDES = obj({**_OVERRIDE, **_BY}, _LEVELS, title="Overrides")
TENANT_OVERRIDES = obj(_OVERRIDE, _LEVELS, title="TenantOverrides")

LIST_QUERY_1_0 = query(host=NAME)
LIST_QUERY = pages(
    host=NAME,
    project_id=NAME,
    name=NAME,
    state={"type": "integer", "minimum": 0, "maximum": 8},
    hurt_by_neighbour=YES_NO,
    sort=sort("server_id", "name", "since", "state", "degradation", "host"),
)
OPERATORS_ONLY = frozenset({"host", "project_id"})
OPERATORS_ONLY_SORTS = frozenset({"host"})
"""They would tell a tenant where its servers are, or of others."""
_LISTED_GROUP = obj(
    {"servers_count": COUNT, "measured_servers": COUNT, "state": nullable(STATE)},
    title="ListedGroup",
)
_LISTED = {
    "group": TEXT,
    "group_state": nullable(_LISTED_GROUP),
    "service": nullable(LISTED_SERVICE),
}
SUMMARY = obj(_SUMMARY, {**_LISTED, **_SINCE_1_4}, "Vp")
LIST_ANSWER = page_of("vps", SUMMARY, "Vps")
_FULL: dict[str, Any] = {
    **_SUMMARY,
    "flavor": TEXT,
    "vcpus": COUNT,
    "vp_id": TEXT,
    "group": TEXT,
    "priority": nullable(NUMBER),
    "cap_floor_ratio": nullable(NUMBER),
    "unmanaged": nullable(UNMANAGED),
    "domains": list_of(COUNT),
    "cpus": TEXT,
    "cap": nullable(TEXT),
    "memory": nullable(TEXT),
    "memory_obstacle": TEXT,
    "sensitivity": list_of(TEXT),
    "metrics": nullable(METRICS_NOW),
    "interference": nullable(INTERFERENCE),
    "last_known": nullable(obj(_LAST_KNOWN, _SINCE_1_1, "LastKnown")),
    "actions": list_of(actions.REPORTED),
    "proposals": list_of(actions.REPORTED),
    **UNDER_WAY,
}
_SINCE_1_2 = {"service": nullable(SERVICE)}
_MORE = {
    "overrides": OVERRIDES,
    **_SINCE_1_1,
    "group_state": nullable(GROUP_STATE),
    **_SINCE_1_2,
    "mode": modes.EFFECTIVE,
    "virtual_domains": list_of(COUNT),
    **_SINCE_1_4,
}
SHOW_ANSWER = obj({"vp": obj(_FULL, _MORE, "FullVp")}, title="VpAnswer")

_TENANT_REPORTED = {**_REPORTED, "since": nullable(MINUTE)}
_TENANT_SUMMARY = {**_WHO, "isolation": TEXT, "is_stale": YES_NO, **_TENANT_REPORTED}
TENANT_SUMMARY = obj(_TENANT_SUMMARY, {**_LISTED, **_TENANT_SINCE_1_4}, "TenantVp")
TENANT_LIST_ANSWER = page_of("vps", TENANT_SUMMARY, "TenantVps")
_TENANT_FULL = {
    **_TENANT_SUMMARY,
    "group": TEXT,
    "sensitivity": list_of(TEXT),
    "unmanaged": nullable(UNMANAGED),
    "last_known": nullable(obj({"at": MINUTE, **_TENANT_REPORTED}, title="TenantLastKnown")),
    "actions": list_of(actions.TENANTS),
}
_TENANT_MORE = {
    "overrides": TENANT_OVERRIDES,
    **_SINCE_1_1,
    "group_state": nullable(TENANT_GROUP_STATE),
    "service": nullable(TENANT_SERVICE),
    **_TENANT_SINCE_1_4,
}
TENANT_SHOW_ANSWER = obj(
    {"vp": obj(_TENANT_FULL, _TENANT_MORE, "FullTenantVp")}, title="TenantVpAnswer"
)

CHANGE = {
    "title": "VpChange",
    "type": "object",
    "properties": {**_OVERRIDE, **_LEVELS},
    "minProperties": 1,
    "additionalProperties": False,
}


def _changed(overrides: dict[str, Any]) -> dict[str, Any]:
    return {"vp": obj({"server_id": TEXT, "overrides": overrides, "is_told": YES_NO})}


CHANGE_ANSWER = obj(_changed(OVERRIDES), title="ChangedVp")
TENANT_CHANGE_ANSWER = obj(_changed(TENANT_OVERRIDES), title="TenantChangedVp")
