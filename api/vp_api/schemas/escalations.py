# SPDX-License-Identifier: Apache-2.0
"""Queries and answers of /v1/escalations."""

from nova_vp.escalation_status import Status
from vp_api.schemas import actions
from vp_api.schemas.base import (
    COUNT,
    KIND,
    MODE,
    NAME,
    NUMBER,
    NUMBERS,
    SERVER,
    STATE,
    TEXT,
    TIME,
    YES_NO,
    enum,
    list_of,
    nullable,
    obj,
    page_of,
    pages,
    sort,
)

STATUS = enum(*(status.value for status in Status))
_SUMMARY = {
    "id": TEXT,
    "host": TEXT,
    "status": STATUS,
    "reason": TEXT,
    "victim": SERVER,
    "project_id": TEXT,
    "kind": KIND,
    "meaning": TEXT,
    "received_at": TIME,
    "changed_at": TIME,
    "accepted_at": nullable(TIME),
    "accepted_by": nullable(TEXT),
    "settled_at": nullable(TIME),
}
CANDIDATE = obj(
    {
        "server": SERVER,
        "project_id": TEXT,
        "flavor": TEXT,
        "role": TEXT,
        "memory_kib": COUNT,
        "state": nullable(STATE),
        "relief_ratio": NUMBER,
        "others_ratio": NUMBER,
        "obstacle": TEXT,
    },
    title="Candidate",
)
ATTEMPT = obj(
    {
        "attempt": COUNT,
        "server": SERVER,
        "project_id": TEXT,
        "role": TEXT,
        "memory_kib": COUNT,
        "timeout_s": COUNT,
        "source_host": TEXT,
        "dest_host": nullable(TEXT),
        "status": STATUS,
        "detail": TEXT,
        "started_at": TIME,
        "requested_at": nullable(TIME),
        "ended_at": nullable(TIME),
        "nova_migration": nullable(TEXT),
    },
    title="Attempt",
)
LIST_QUERY = pages(host=NAME, status=STATUS, sort=sort("received_at"))
LIST_ANSWER = page_of("escalations", obj(_SUMMARY, title="Escalation"), "Escalations")
_FULL = {
    **_SUMMARY,
    "mode": MODE,
    "since": nullable(TIME),
    "evidence": NUMBERS,
    "rejected": list_of(actions.ALTERNATIVE),
    "candidates": list_of(CANDIDATE),
    "choice": nullable({"type": "object"}),
    "attempts": list_of(ATTEMPT),
}
SHOW_ANSWER = obj({"escalation": obj(_FULL, title="FullEscalation")}, title="EscalationAnswer")
ACCEPT_ANSWER = obj(
    {"escalation": obj({"id": TEXT, "is_accepted": YES_NO})}, title="AcceptedEscalation"
)
