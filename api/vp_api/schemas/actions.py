# SPDX-License-Identifier: Apache-2.0
"""Queries, bodies and answers of /v1/actions, and actions wherever else they are told."""

from vp_api.schemas.base import (
    COUNT,
    MINUTE,
    NAME,
    NUMBER,
    NUMBERS,
    SERVER,
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

ALTERNATIVE = obj(
    {
        "server": SERVER,
        "domain": nullable(COUNT),
        "rung": TEXT,
        "why": TEXT,
        "meaning": TEXT,
        "hurt_ratio": nullable(NUMBER),
    },
    title="Alternative",
)
CHANGE = obj(
    {"server": SERVER, "knob": TEXT, "from": TEXT, "to": TEXT, "until": nullable(TIME)},
    title="Change",
)
_ACTION = {
    "id": TEXT,
    "at": nullable(TIME),
    "settled_at": nullable(TIME),
    "controller": TEXT,
    "server": SERVER,
    "victim": nullable(SERVER),
    "on_behalf_of": nullable(SERVER),
    "reason": TEXT,
    "meaning": TEXT,
    "rung": nullable(TEXT),
    "result": TEXT,
    "detail": TEXT,
    "from_cpus": TEXT,
    "to_cpus": TEXT,
    "domains": list_of(COUNT),
    "changes": list_of(CHANGE),
    "hurt_ratio": NUMBER,
    "evidence": NUMBERS,
    "rejected": list_of(ALTERNATIVE),
}
REPORTED = obj(_ACTION, title="ReportedAction")
_ACCEPTED = {"accepted_by": nullable(TEXT)}
"""Since 1.4."""
STORED = obj({**_ACTION, "host": TEXT, "project_id": TEXT}, _ACCEPTED, "Action")
TENANTS = obj({"at": nullable(MINUTE), "what": TEXT, "result": TEXT}, title="TenantAction")

WITHIN = {"begin": TIME, "end": TIME}
LIST_QUERY = pages(
    host=NAME, server_id=NAME, project_id=NAME, result=NAME, sort=sort("at"), **WITHIN
)
LIST_ANSWER = page_of("actions", STORED, "Actions")
OF_VP_QUERY = pages(**WITHIN)
OF_VP_TENANT_ANSWER = page_of("actions", TENANTS, "TenantActions")
ONE_QUERY = query(host=NAME)
SHOW_ANSWER = obj({"action": STORED}, title="ActionAnswer")
_TOLD = {"id": TEXT, "host": TEXT}
ACCEPT_ANSWER = obj({"action": obj({**_TOLD, "is_accepted": YES_NO})}, title="AcceptedAction")
REJECT_ANSWER = obj({"action": obj({**_TOLD, "is_rejected": YES_NO})}, title="RejectedAction")
UNDO_ANSWER = obj({"action": obj({**_TOLD, "is_undone": YES_NO})}, title="UndoneAction")
EMPTY_BODY = obj({}, title="Nothing")
REJECTION = obj({}, {"reason": {"type": "string", "maxLength": 255}}, "Rejection")
