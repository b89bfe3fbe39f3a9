# SPDX-License-Identifier: Apache-2.0
"""Overlays as the agent of a host is told of them, a call of one, and the agent's answer."""

from nova_vp.core.types.overlay import ArbitrationClass, CallResource, Direction, Nack, Verb
from nova_vp.wire.schema_types import (
    COUNT,
    LONG_TEXT,
    MAX_PRIORITY,
    MAX_SERVERS,
    MOST_NUMBER,
    TEXT,
    UUID,
    VERSION,
    list_of,
    object_of,
)
from nova_vp.wire.validation import nullable

OVERLAYS = "vp_overlays"
OVERLAY_CALL = "vp_overlay_call"
OVERLAY_ANSWER = "vp_overlay_answer"
"""See `rpcapi.AgentAPI.set_overlays` and `call_overlay`. OVERLAY_CALL is also the topic of
`rpcapi.OverlayAPI`; the others have none of their own."""

MAX_OVERLAYS_BYTES = 1024 * 1024
MAX_OVERLAY_CALL_BYTES = 2048
MAX_OVERLAY_ANSWER_BYTES = 8192
MOST_CPUS = 4096
"""That one call borrows."""
MOST_LEASE_S = 86_400.0
LEASE_S = {"type": "number", "exclusiveMinimum": 0, "maximum": MOST_LEASE_S}
TARGET = {"type": "number", "minimum": -MOST_NUMBER, "maximum": MOST_NUMBER}
MOST_UNIT = 32
ISLAND_NAME = {"type": "string", "pattern": r"\A[A-Za-z0-9_.:-]{0,64}\Z"}
CALL_ID = {"type": "string", "pattern": r"\A[A-Za-z0-9_.:-]{1,64}\Z"}

_PROJECT_ID = {"type": "string", "minLength": 1, "maxLength": 64}
_OVERLAY = object_of(
    {
        "id": UUID,
        "name": TEXT,
        "project_id": _PROJECT_ID,
        "members": list_of(UUID, MAX_SERVERS),
        "priority": {"type": "number", "minimum": 0, "maximum": MAX_PRIORITY},
        "arbitration": {"enum": [one.value for one in ArbitrationClass]},
        "target": nullable(TARGET),
        "target_unit": {"type": "string", "maxLength": MOST_UNIT},
    }
)

OVERLAYS_SCHEMA = object_of(
    {"v": {"const": VERSION}, "version": COUNT, "overlays": list_of(_OVERLAY, MAX_SERVERS)}
)
"""All overlays with servers on the host, which replace those told before. `members`: those on this
host. A server is in one overlay at most. `version`: a message with a smaller one than the last
changes nothing."""

OVERLAY_CALL_SCHEMA = object_of(
    {
        "v": {"const": VERSION},
        "id": CALL_ID,
        "overlay_id": UUID,
        "project_id": _PROJECT_ID,
        "verb": {"enum": [one.value for one in Verb]},
        "resource": {"enum": [one.value for one in CallResource]},
        "direction": {"enum": [one.value for one in Direction]},
        "server": nullable(UUID),
        "cpus": {"type": "integer", "minimum": 0, "maximum": MOST_CPUS},
        "island": ISLAND_NAME,
        "lease_s": nullable(LEASE_S),
        "sent_at_ms": COUNT,
    }
)
"""`project_id`: whose overlay it is by the database; the agent compares it with what it was told of
the overlay. `id`: a call of the overlay with an id that was answered already changes nothing and
gets that answer again. `server`: null: all members on the host; of a call that a host sends to
vp-scheduler, all on other hosts. `sent_at_ms`: by its sender's clock; a call that was sent long ago
is not carried out."""

OVERLAY_ANSWER_SCHEMA = object_of(
    {
        "v": {"const": VERSION},
        "call_id": CALL_ID,
        "nack": {"enum": [None, *(one.value for one in Nack)]},
        "detail": LONG_TEXT,
        "lease_s": nullable({"type": "number", "minimum": 0, "maximum": MOST_LEASE_S}),
    }
)
"""`nack`: why it is refused; null: it is granted. `detail`: for operators: it may name islands
and other servers."""

OVERLAYS_TOLD = object_of({"version": COUNT, "checksum": TEXT})
OVERLAY_STATE = object_of(
    {
        "id": UUID,
        "borrowed_cpus": COUNT,
        "boosted": list_of(UUID, MAX_SERVERS),
        "credit_ratio": {"type": "number", "minimum": 0, "maximum": 1},
        "granted": COUNT,
        "refused": COUNT,
    }
)
_LOAN = object_of(
    {
        "cpu": COUNT,
        "lender": {**ISLAND_NAME, "minLength": 1},
        "overlay_id": nullable(UUID),
    }
)
ISLAND = object_of(
    {
        "name": {**ISLAND_NAME, "minLength": 1},
        "kind": {"enum": ["fair", "capped", "exclusive"]},
        "cpus": TEXT,
        "own_cpus": TEXT,
        "cap_cpus": nullable({"type": "number", "minimum": 0, "maximum": MOST_CPUS}),
        "servers": list_of(UUID, MAX_SERVERS),
    },
    {
        "problem": LONG_TEXT,
        "nodes": list_of(COUNT, MOST_CPUS),
        "borrowed": list_of(_LOAN, MOST_CPUS),
    },
)
