# SPDX-License-Identifier: Apache-2.0
"""Which escalations of the cluster's ledger the harm of a server has brought about by now."""

from collections.abc import Iterable
from typing import Any

Told = dict[str, Any]
ANSWERED = ("observed", "refused")
"""Without a migration: what would have been done, or why nothing can be, stands in the ledger."""


def asked_of_cluster(vp: Told, latest: Iterable[Told]) -> dict[str, str]:
    """How far each is. Hosts number what they ask for by themselves; these are the ids of the
    cluster's ledger, which may know of one before the next report of the host is in."""
    kinds = {one["kind"] for one in vp["escalations"]}
    return {
        one["id"]: one["status"]
        for one in latest
        if one["victim"]["server_id"] == vp["server_id"]
        and (not kinds or one["kind"] in kinds)
        and _is_of_now(one, vp)
    }


def _is_of_now(escalation: Told, vp: Told) -> bool:
    """It stands, or since the harm began the cluster said why nobody is moved."""
    if escalation["settled_at"] is None:
        return True
    found = (vp["last_known"] or vp)["interference"]
    is_answered = escalation["status"] in ANSWERED
    return is_answered and found is not None and str(escalation["received_at"]) >= found["since"]
