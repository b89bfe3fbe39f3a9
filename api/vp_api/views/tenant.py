# SPDX-License-Identifier: Apache-2.0
"""What a tenant is told about a server of its own: this module is the whole allow-list.

Only literal keys below ever reach a tenant. Free text of a report never does: reasons and results
pass through tables of known words. Nothing names a host, a neighbour, a CPU or a raw counter.
"""

from collections.abc import Mapping
from typing import Any

from nova_vp.core.model import Isolation, Reason, Result, Unmanaged
from vp_api.sightings import Sighting
from vp_api.views import values

OWN_ACTIONS = {
    Reason.HOME.value: "this server was given a place within its host",
    Reason.MOVE_AGGRESSOR.value: "this server was moved within its host",
    Reason.MOVE_VICTIM.value: "this server was moved within its host",
    Reason.INEFFECTIVE.value: "an earlier move of this server was undone",
    Reason.REAPPLY.value: "this server was put back where it had been moved to",
}
NEIGHBOUR_ACTIONS = {
    Reason.MOVE_AGGRESSOR.value: "a neighbour was moved away",
    Reason.INEFFECTIVE.value: "an earlier move of a neighbour was undone",
    Reason.REAPPLY.value: "a neighbour was kept away",
}
RESULTS = frozenset(result.value for result in Result)
ISOLATIONS = frozenset(isolation.value for isolation in Isolation)
SENSITIVITIES = ("cache", "memory", "remote-latency")
UNMANAGED = {
    Unmanaged.NUMA_TOPOLOGY.value: "the flavor or image asks for a NUMA topology",
    Unmanaged.DEDICATED_CPUS.value: "the flavor asks for dedicated CPUs",
    Unmanaged.HUGEPAGES.value: "the flavor asks for huge pages",
    Unmanaged.REALTIME.value: "the flavor asks for realtime CPUs",
    Unmanaged.OPTED_OUT.value: "the flavor says vp:manage=no",
    Unmanaged.INVALID_SPEC.value: "the flavor's vp: specs are not valid; tell your operator",
}


def summary(sighting: Sighting) -> dict[str, Any]:
    vp, is_stale = sighting.vp, sighting.age.is_stale
    return {
        "server_id": sighting.server_id,
        "name": vp["name"],
        "project_id": vp["project_id"],
        "isolation": _known(vp["isolation"], ISOLATIONS),
        "is_stale": is_stale,
        "state": None if is_stale else values.state(vp["state"]),
        "since": None if is_stale else values.iso(vp["since"]),
        "hurt_by_neighbour": None if is_stale else vp["interference"] is not None,
    }


def show(sighting: Sighting) -> dict[str, Any]:
    vp = sighting.vp
    return {
        **summary(sighting),
        "sensitivity": [name for name in SENSITIVITIES if name in vp["sensitivity"]],
        "unmanaged": _unmanaged(vp["unmanaged"]),
        "last_known": _last_known(sighting) if sighting.age.is_stale else None,
        "actions": [
            told
            for action in vp["actions"]
            if (told := _action(action, sighting.server_id)) is not None
        ],
    }


def _last_known(sighting: Sighting) -> dict[str, Any]:
    vp = sighting.vp
    # To the minute: the moment itself is the host's, and would tell who shares it.
    at = sighting.age.received_at.replace(second=0, microsecond=0)
    return {
        "at": values.iso_datetime(at),
        "state": values.state(vp["state"]),
        "since": values.iso(vp["since"]),
        "hurt_by_neighbour": vp["interference"] is not None,
    }


def _action(action: Mapping[str, Any], server_id: str) -> dict[str, Any] | None:
    """In the tenant's words, or None: an action that is not about this server."""
    own = server_id.lower()
    if action["uuid"].lower() == own:
        what = OWN_ACTIONS.get(action["reason"], "this server was moved within its host")
    elif (action["victim"] or "").lower() == own:
        what = NEIGHBOUR_ACTIONS.get(action["reason"], "something was done for this server")
    else:
        return None
    return {
        "at": values.iso(action["at"]),
        "what": what,
        "result": _known(action["result"], RESULTS),
    }


def _unmanaged(reason: str | None) -> dict[str, str] | None:
    """Only what the tenant's own flavor says; other reasons are the host's affair."""
    if reason not in UNMANAGED:
        return None
    return {"reason": str(reason), "detail": UNMANAGED[str(reason)]}


def _known(word: str, words: frozenset[str]) -> str:
    return word if word in words else "unknown"
