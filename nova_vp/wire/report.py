# SPDX-License-Identifier: Apache-2.0
"""The report, which operators and tenants are shown: all that an agent knows of its host."""

from nova_vp.core.types.detection import Kind
from nova_vp.core.types.mode_levels import ModeLevel
from nova_vp.core.types.service_level import ServiceClass
from nova_vp.wire.digest import DIGEST_DOMAIN
from nova_vp.wire.modes import MAX_AGGREGATES
from nova_vp.wire.overlays import ISLAND, OVERLAY_STATE, OVERLAYS_TOLD
from nova_vp.wire.schema_types import (
    ALTERNATIVE,
    COUNT,
    EVIDENCE,
    HEAD,
    IMAGE,
    KIND,
    LONG_TEXT,
    MAX_SERVERS,
    MODE,
    MOST_NUMBER,
    NUMBER,
    OVERRIDE,
    PREDICT_CLASSES,
    SENSITIVITY,
    TEXT,
    UUID,
    list_of,
    object_of,
)
from nova_vp.wire.validation import nullable

REPORT_TOPIC = "vp_report"
CPU_RATIOS = ("waiting_ratio", "throttled_ratio_ours", "throttled_ratio_nova")
"""What is told of a server's CPU time: see `nova_vp.core.types.cpu_time.CpuUse`."""
MAX_REPORT_BYTES = 1024 * 1024
FIGURE_NAME = {"type": "string", "pattern": r"\A[a-z][a-z0-9_]{0,63}\Z"}
"""Of a controller, or of what it tells of a server."""

_CHANGE = object_of(
    {"uuid": UUID, "knob": TEXT, "from": TEXT, "to": TEXT, "until": nullable(NUMBER)}
)

_ACTION = object_of(
    {
        "id": TEXT,
        "at": NUMBER,
        "controller": TEXT,
        "uuid": UUID,
        "victim": nullable(UUID),
        "reason": TEXT,
        "result": TEXT,
        "detail": LONG_TEXT,
        "from_cpus": TEXT,
        "to_cpus": TEXT,
        "domains": list_of(COUNT, 64),
        "hurt_ratio": NUMBER,
        "evidence": EVIDENCE,
        "rejected": list_of(ALTERNATIVE, 64),
    },
    {
        "changes": list_of(_CHANGE, 64),
        "rung": nullable(TEXT),
        "on_behalf_of": nullable(UUID),
        "settled_at": nullable(NUMBER),
    },
)

_CPU_USE = object_of(dict.fromkeys(CPU_RATIOS, NUMBER))

_FIGURES = {
    "type": "object",
    "propertyNames": FIGURE_NAME,
    "maxProperties": 32,
    "additionalProperties": {
        "type": "object",
        "propertyNames": FIGURE_NAME,
        "maxProperties": 32,
        "additionalProperties": {
            "type": ["number", "string"],
            "minimum": -MOST_NUMBER,
            "maximum": MOST_NUMBER,
            "maxLength": 64,
        },
    },
}

_COUNTS = {
    "type": "object",
    "propertyNames": {"maxLength": 64},
    "maxProperties": 16,
    "additionalProperties": COUNT,
}
_SERVICE = object_of(
    {
        "class": {"enum": [one.value for one in ServiceClass]},
        "latency_target_ms": nullable(NUMBER),
        "latency_percentile": NUMBER,
        "max_load": nullable(NUMBER),
        "may_suspend": {"type": "boolean"},
        "used": COUNT,
        "ignored": _COUNTS,
        "reported": nullable(
            object_of({"at": NUMBER, "latency_ms": NUMBER, "load": nullable(NUMBER)})
        ),
    }
)

_VP = object_of(
    {
        "uuid": UUID,
        "name": TEXT,
        "project_id": {"type": "string", "maxLength": 64},
        "flavor": TEXT,
        "vcpus": COUNT,
        "isolation": {"enum": ["none", "soft", "strict"]},
        "unmanaged": nullable(TEXT),
        "unmanaged_detail": LONG_TEXT,
        "domains": list_of(COUNT, 64),
        "cpus": TEXT,
        "state": nullable({"type": "integer", "minimum": 0, "maximum": 8}),
        "since": nullable(NUMBER),
        "incomplete": nullable(TEXT),
        "sensitivity": SENSITIVITY,
        "metrics": nullable(
            object_of(
                {
                    "mpki": NUMBER,
                    "l2_mpki": NUMBER,
                    "memory_factor": NUMBER,
                    "cpi": NUMBER,
                    "cpu_cores": NUMBER,
                    "misses_per_s": NUMBER,
                    "remote_ratio": NUMBER,
                    "running_ratio": NUMBER,
                }
            )
        ),
        "interference": nullable(
            object_of(
                {
                    "kind": KIND,
                    "since": NUMBER,
                    "suspects": list_of(object_of({"uuid": UUID, "rise_per_s": NUMBER}), 64),
                    "refused": list_of(ALTERNATIVE, 16),
                },
                {"loss_ratio": NUMBER},
            )
        ),
        "actions": list_of(_ACTION, 16),
    },
    {
        "vp_id": TEXT,
        "group": {"type": "string", "pattern": r"\A[A-Za-z0-9_.-]{0,64}\Z"},
        "priority": NUMBER,
        "cap_floor_ratio": nullable(NUMBER),
        "cap": TEXT,
        "memory": TEXT,
        "memory_obstacle": LONG_TEXT,
        "image": IMAGE,
        "memory_kib": COUNT,
        "override": OVERRIDE,
        "mode": MODE,
        "virtual_domains": list_of(COUNT, 64),
        "cpu_use": nullable(_CPU_USE),
        "figures": _FIGURES,
        "service": nullable(_SERVICE),
    },
)

_BY_CLASS = {
    "type": "array",
    "items": NUMBER,
    "minItems": PREDICT_CLASSES,
    "maxItems": PREDICT_CLASSES,
}

_DOMAIN = object_of(
    {
        "id": COUNT,
        "node": COUNT,
        "cpus": TEXT,
        "free_cores": NUMBER,
        "vcpus": NUMBER,
        "misses_per_s": NUMBER,
    },
    {
        "newcomer_losses": object_of({}, {kind.value: _BY_CLASS for kind in Kind}),
        "llc_permits": NUMBER,
        "digest": DIGEST_DOMAIN,
    },
)

_NODE = object_of(
    {
        "node": COUNT,
        "misses_per_s": NUMBER,
        "mpki": NUMBER,
        "limit_misses_per_s": nullable(NUMBER),
        "is_hot": {"type": "boolean"},
    }
)

_MEMORY_MOVE = object_of(
    {
        "uuid": UUID,
        "to": TEXT,
        "moved_kib": COUNT,
        "left_kib": COUNT,
        "is_over": {"type": "boolean"},
        "problem": LONG_TEXT,
    }
)

_ESCALATION = object_of(
    {
        "id": TEXT,
        "at": NUMBER,
        "since": NUMBER,
        "victim": UUID,
        "kind": KIND,
        "evidence": EVIDENCE,
        "rejected": list_of(ALTERNATIVE, 64),
    }
)

_SET_MODE = object_of(
    {"level": {"enum": [level.value for level in ModeLevel]}, "name": TEXT, "mode": MODE}
)

_MODES = object_of(
    {
        "version": COUNT,
        "checksum": TEXT,
        "knows_aggregates": {"type": "boolean"},
        "source": _SET_MODE,
        "levels": list_of(_SET_MODE, MAX_AGGREGATES + 2),
    }
)

_LATENCY_PROJECT = object_of(
    {
        "project_id": TEXT,
        "servers": COUNT,
        "used": COUNT,
        "ignored": _COUNTS,
    }
)

REPORT_SCHEMA = object_of(
    {
        **HEAD,
        "at": NUMBER,
        "counters": object_of({"source": TEXT, "problems": list_of(LONG_TEXT, 16)}),
        "actuator": TEXT,
        "domains": list_of(_DOMAIN, 1024),
        "vps": list_of(_VP, MAX_SERVERS),
        "proposals": list_of(_ACTION, 256),
    },
    {
        "nodes": list_of(_NODE, 1024),
        "memory_moves": list_of(_MEMORY_MOVE, 256),
        "escalations": list_of(_ESCALATION, 256),
        "hypervisor": TEXT,
        "knobs": list_of(TEXT, 16),
        "overrides_version": COUNT,
        "modes": _MODES,
        "homing": {"type": "boolean"},
        "facts": object_of({"read_at": NUMBER, "checksum": TEXT}),
        "steal_ratio": nullable(NUMBER),
        "latency_projects": list_of(_LATENCY_PROJECT, MAX_SERVERS),
        "overlays_told": OVERLAYS_TOLD,
        "overlays": list_of(OVERLAY_STATE, MAX_SERVERS),
        "islands": list_of(ISLAND, 1024),
    },
)
"""`at`, `since` and `until` are seconds since the Unix epoch by the host's clock, for people to
read; freshness is judged by the receiver's own clock. What a reader may miss is what agents sent
before there was anything to say of it: receivers are upgraded before agents. `hypervisor`:
libvirt's name of the host, under which Placement knows it. `knobs`: what its agent can turn.
`vps[].override`: what the agent was told to override of it; absent: it was not told of it yet.
`overrides_version`: of the latest such message; absent: the agent takes none.
`facts`: those of Nova that the agent was told last, and when Nova was asked for them (0: it was
told none); absent: the agent takes none.
`vps[].virtual_domains`: LLC domains in which a host that only observes would place it; empty or
absent: none. `vps[].mode`: what holds for the server; absent: the mode of its host. `modes`: what
is set on the levels that hold for the host, and which of it is the `source` of its mode; `version`
and `checksum` of those of the cloud and of aggregates that the agent was told last; absent: the
agent takes none. `modes.knows_aggregates`: false: those of all aggregates count.
`vps[].cpu_use`, `steal_ratio`: null or absent: unknown.
`homing`, `domains[].digest`: as in the digest, where domains may be left out; absent: unknown.
`domains[].llc_permits`: LLC misses per ms that servers have booked there.
`domains[].newcomer_losses`: by resource and newcomer class, the share of performance that whoever
loses most to this resource would lose to it alone if one came; absent: the agent does not say.
`vps[].interference.loss_ratio`: share of its performance that it loses to this; absent: unknown.
`vps[].figures`: by controller, what it tells of the server, by the name of each figure.
`vps[].service`: its class and latency target, and the last latency that its application reported;
null: it has no class. `latency_projects`: how many reports of latency of each project's servers
were used, and how many ignored, by reason, since each of them is on the host.
`overlays_told`: the version and the checksum (`nova_vp.overlay_message.checksum`) of the overlays
that the agent was told last (0 and that of none: it was told none); absent: the agent takes none.
`overlays`: what each of these holds now: whole CPUs that it has borrowed, servers with a boost, how
full its credit is, and how many of its calls were granted and refused since the agent started.
`islands`: `own_cpus` are those that belong to an island, `cpus` those that it has now, with what it
borrowed and without what it lent; `cap_cpus`: CPUs that its servers may use together; null: all;
`nodes`: NUMA nodes whose memory is the island's; `borrowed`: whose each CPU of others is, and for
which overlay; null: for the cap of the host; both absent: the agent does not say.
`problem`: why the cap does not hold, or which CPUs are missing; empty or absent: all is well."""
