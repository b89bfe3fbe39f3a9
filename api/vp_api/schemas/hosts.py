# SPDX-License-Identifier: Apache-2.0
"""Queries, bodies and answers of /v1/hosts."""

from vp_api.schemas import actions, modes, vps
from vp_api.schemas.base import (
    COUNT,
    COUNTS,
    KIND,
    MODE,
    NUMBER,
    RATIO,
    SERVER,
    STATE,
    TEXT,
    YES_NO,
    enum,
    list_of,
    nullable,
    obj,
    page_of,
    pages,
    query,
    sort,
)

_SUMMARY = {
    "name": TEXT,
    "mode": MODE,
    "counters": obj({"source": TEXT, "problems": list_of(TEXT)}, title="Counters"),
    "vps_count": COUNT,
    "hurt_count": nullable(COUNT),
    **vps.AGE,
}
_LISTED = {"mode_source": nullable(modes.SOURCE)}
"""Since 1.3; null: the agent does not say."""
_LOSSES = {"type": "object", "additionalProperties": list_of(NUMBER)}
"""By resource: of each newcomer class in turn, states 0 to 8 and then one that was not measured."""
DOMAIN = obj(
    {"id": COUNT, "cpus": TEXT, "free_cores": NUMBER, "vcpus": NUMBER, "misses_per_s": NUMBER},
    {
        "servers": list_of(SERVER),
        "newcomer_losses": nullable(_LOSSES),
        "llc_permits": obj({"booked": NUMBER, "free": nullable(NUMBER)}, title="LlcPermits"),
    },
    "LlcDomain",
)
NODE = obj(
    {
        "node": COUNT,
        "misses_per_s": NUMBER,
        "mpki": NUMBER,
        "limit_misses_per_s": nullable(NUMBER),
        "is_hot": YES_NO,
    },
    title="Node",
)
CONTENTION = obj({"kind": KIND, "meaning": TEXT, "servers": list_of(SERVER)}, title="Contention")
LEFT_ALONE = obj(
    {"server_id": TEXT, "name": TEXT, "reason": TEXT, "detail": TEXT}, title="UnmanagedSuspect"
)

LATENCY_PROJECT = obj(
    {"project_id": TEXT, "servers": COUNT, "used": COUNT, "ignored": COUNTS},
    title="LatencyProject",
)
"""`used`, `ignored`: reports of latency of its servers on the host, the latter by reason."""

ISLAND = obj(
    {
        "name": TEXT,
        "kind": enum("fair", "capped", "exclusive"),
        "cpus": TEXT,
        "own_cpus": TEXT,
        "cap_cpus": nullable(NUMBER),
        "servers": list_of(SERVER),
        "problem": TEXT,
    },
    {
        "nodes": nullable(list_of(COUNT)),
        "borrowed": nullable(
            list_of(obj({"cpu": COUNT, "lender": TEXT, "overlay_id": nullable(TEXT)}))
        ),
    },
    title="Island",
)
"""`own_cpus` belong to it; `cpus` are those that it has now, with what it borrowed and without what
it lent. `nodes`: NUMA nodes whose memory is its own. `borrowed`: from which island each CPU is, and
for which overlay; null: for the cap of the host. `problem`: empty: all is well."""

OVERLAY_ON_HOST = obj(
    {
        "id": TEXT,
        "borrowed_cpus": COUNT,
        "boosted": list_of(SERVER),
        "credit_ratio": NUMBER,
        "granted": COUNT,
        "refused": COUNT,
    },
    title="OverlayOnHost",
)

HEAT = {
    "domains": list_of(
        obj(
            {
                "id": COUNT,
                "node": COUNT,
                "cpus": TEXT,
                "free_cores": NUMBER,
                "vcpus": NUMBER,
                "misses_per_s": NUMBER,
                "servers_count": COUNT,
                "hurt_count": COUNT,
                "states": list_of(
                    obj({"state": STATE, "servers_count": COUNT}, title="StateCount")
                ),
            },
            {"worst_ratio": nullable(RATIO)},
            "HeatDomain",
        )
    ),
    "nodes": list_of(
        obj(
            {
                "node": COUNT,
                "misses_per_s": NUMBER,
                "limit_misses_per_s": nullable(NUMBER),
                "is_hot": YES_NO,
            },
            title="HeatNode",
        )
    ),
}
"""Since 1.3, where asked for."""

LIST_QUERY_1_0 = query()
LIST_QUERY = pages(
    mode=MODE, is_stale=YES_NO, heat=YES_NO, sort=sort("name", "hurt_count", "vps_count")
)
LIST_ANSWER = page_of("hosts", obj(_SUMMARY, {**_LISTED, **HEAT}, "Host"), "Hosts")
SHOW_ANSWER = obj(
    {
        "host": obj(
            {
                **_SUMMARY,
                "actuator": TEXT,
                "cells": list_of(obj({"id": COUNT, "domains": list_of(DOMAIN)}, title="Cell")),
                "nodes": list_of(NODE),
                "vps": list_of(vps.ON_HOST),
                "proposals": list_of(actions.REPORTED),
                **vps.UNDER_WAY,
            },
            {
                **_LISTED,
                "mode_levels": list_of(modes.SET_MODE),
                "hypervisor": TEXT,
                "knobs": list_of(TEXT),
                "steal_ratio": nullable(NUMBER),
                "contention": list_of(CONTENTION),
                "unmanaged_suspects": list_of(LEFT_ALONE),
                "latency_projects": list_of(LATENCY_PROJECT),
                "islands": list_of(ISLAND),
                "overlays": list_of(OVERLAY_ON_HOST),
            },
            "FullHost",
        )
    },
    title="HostAnswer",
)
CHANGE = obj({"mode": nullable(MODE)}, title="HostChange")
CHANGE_ANSWER = obj({"host": obj({"name": TEXT, "mode": nullable(MODE)})}, title="ChangedHost")
