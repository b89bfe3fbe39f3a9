# SPDX-License-Identifier: Apache-2.0
"""The escalation: an agent asks the cluster for help, and which guests may be moved."""

from nova_vp.wire.schema_types import (
    ALTERNATIVE,
    COUNT,
    EVIDENCE,
    HEAD,
    IMAGE,
    KIND,
    LONG_TEXT,
    MODE,
    NUMBER,
    SENSITIVITY,
    TEXT,
    UUID,
    VERSION,
    list_of,
    object_of,
)
from nova_vp.wire.validation import nullable

ESCALATION_TOPIC = "vp_escalation"
MAX_ESCALATION_BYTES = 256 * 1024
MAX_CANDIDATES = 128
NO_LONGER_HURT = "no-longer-hurt"
"""What an agent answers that is told to prepare a migration which is not needed any more."""
AGENT_BUSY = "agent-busy"
"""What it answers that had no time for it: it may be asked again."""
_SHARE = {"type": "number", "minimum": -1e6, "maximum": 1e6}

_CANDIDATE = object_of(
    {
        "uuid": UUID,
        "name": TEXT,
        "project_id": {"type": "string", "maxLength": 64},
        "flavor": TEXT,
        "image": IMAGE,
        "vcpus": COUNT,
        "role": {"enum": ["victim", "aggressor", "co-runner"]},
        "memory_kib": COUNT,
        "dirty_kib_per_s": nullable(NUMBER),
        "state": nullable({"type": "integer", "minimum": 0, "maximum": 8}),
        "sensitivity": SENSITIVITY,
        "priority": NUMBER,
        "relief_ratio": _SHARE,
        "others_ratio": _SHARE,
        "obstacle": LONG_TEXT,
    }
)

ESCALATION_SCHEMA = object_of(
    {
        "v": {"const": VERSION},
        "id": UUID,
        "host": HEAD["host"],
        "epoch": COUNT,
        "at": NUMBER,
        "since": NUMBER,
        "mode": MODE,
        "kind": KIND,
        "victim": UUID,
        "evidence": EVIDENCE,
        "rejected": list_of(ALTERNATIVE, 64),
        "candidates": list_of(_CANDIDATE, MAX_CANDIDATES),
    }
)
"""`id` is the same however often it is sent. Of each candidate, if it left the host:
`relief_ratio`, the share of its undisturbed performance that the victim would regain, and
`others_ratio`, what all other guests would, summed up. `obstacle`: why Nova cannot live-migrate
it, or we must not have it moved; empty: nothing known."""
