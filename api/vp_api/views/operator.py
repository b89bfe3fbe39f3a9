# SPDX-License-Identifier: Apache-2.0
"""What an operator is told: everything a report has, with names beside ids and ages beside values.

Nothing here may be given to a tenant; `tenant.py` is the only other view.
"""

from collections.abc import Mapping
from typing import Any

from nova_vp.db.queries import HostRecord
from vp_api.sightings import Age, Sighting
from vp_api.views import values

Names = Mapping[str, str]


def host_summary(record: HostRecord, age: Age) -> dict[str, Any]:
    vps = record.report["vps"]
    hurt_count = sum(vp["interference"] is not None for vp in vps)
    return {
        "name": record.host,
        "mode": record.mode,
        "counters": record.report["counters"],
        "vps_count": len(vps),
        "hurt_count": None if age.is_stale else hurt_count,
        **_age(age),
    }


def host(record: HostRecord, age: Age) -> dict[str, Any]:
    report = record.report
    names = _names(record)
    sightings = [Sighting(record, age, vp) for vp in report["vps"]]
    return {
        **host_summary(record, age),
        "actuator": report["actuator"],
        "cells": _cells(report["domains"]),
        "vps": [{**vp_summary(s), "domains": s.vp["domains"]} for s in sightings],
        "proposals": [_action(action, names) for action in report["proposals"]],
    }


def vp_summary(sighting: Sighting) -> dict[str, Any]:
    vp = sighting.vp
    return {
        "server_id": sighting.server_id,
        "name": vp["name"],
        "project_id": vp["project_id"],
        "host": sighting.record.host,
        "isolation": vp["isolation"],
        **_age(sighting.age),
        **_now(sighting),
    }


def vp(sighting: Sighting) -> dict[str, Any]:
    vp, names = sighting.vp, _names(sighting.record)
    return {
        **vp_summary(sighting),
        "flavor": vp["flavor"],
        "vcpus": vp["vcpus"],
        "unmanaged": _unmanaged(vp),
        "domains": vp["domains"],
        "cpus": vp["cpus"],
        "sensitivity": vp["sensitivity"],
        "metrics": None if sighting.age.is_stale else vp["metrics"],
        "interference": None if sighting.age.is_stale else _interference(vp, names),
        "last_known": _last_known(sighting, names) if sighting.age.is_stale else None,
        "actions": [_action(action, names) for action in vp["actions"]],
        "proposals": [
            _action(action, names)
            for action in sighting.record.report["proposals"]
            if vp["uuid"] in (action["uuid"], action["victim"])
        ],
    }


def _age(age: Age) -> dict[str, Any]:
    return {
        "reported_at": values.iso_datetime(age.received_at),
        "age_s": age.age_s,
        "is_stale": age.is_stale,
    }


def _now(sighting: Sighting) -> dict[str, Any]:
    """What holds now: of a stale host nothing does."""
    if sighting.age.is_stale:
        return {"state": None, "since": None, "incomplete": None, "hurt_by_neighbour": None}
    return _reported(sighting.vp)


def _reported(vp: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "state": values.state(vp["state"]),
        "since": values.iso(vp["since"]),
        "incomplete": vp["incomplete"],
        "hurt_by_neighbour": vp["interference"] is not None,
    }


def _last_known(sighting: Sighting, names: Names) -> dict[str, Any]:
    return {
        "at": values.iso_datetime(sighting.age.received_at),
        **_reported(sighting.vp),
        "metrics": sighting.vp["metrics"],
        "interference": _interference(sighting.vp, names),
    }


def _cells(domains: list[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """LLC domains by NUMA cell."""
    cells: dict[int, list[dict[str, Any]]] = {}
    for domain in domains:
        told = {key: value for key, value in domain.items() if key != "node"}
        cells.setdefault(domain["node"], []).append(told)
    return [{"id": node, "domains": cells[node]} for node in sorted(cells)]


def _unmanaged(vp: Mapping[str, Any]) -> dict[str, str] | None:
    if vp["unmanaged"] is None:
        return None
    return {"reason": vp["unmanaged"], "detail": vp["unmanaged_detail"]}


def _interference(vp: Mapping[str, Any], names: Names) -> dict[str, Any] | None:
    found = vp["interference"]
    if found is None:
        return None
    suspects = [
        {**_server(names, suspect["uuid"]), "rise_per_s": suspect["rise_per_s"]}
        for suspect in found["suspects"]
    ]
    return {
        "kind": found["kind"],
        "since": values.iso(found["since"]),
        "suspects": suspects,
        "refused": [_alternative(other, names) for other in found["refused"]],
    }


def _action(action: Mapping[str, Any], names: Names) -> dict[str, Any]:
    victim = action["victim"]
    return {
        "id": action["id"],
        "at": values.iso(action["at"]),
        "controller": action["controller"],
        "server": _server(names, action["uuid"]),
        "victim": None if victim is None else _server(names, victim),
        "reason": action["reason"],
        "result": action["result"],
        "detail": action["detail"],
        "from_cpus": action["from_cpus"],
        "to_cpus": action["to_cpus"],
        "domains": action["domains"],
        "hurt_ratio": action["hurt_ratio"],
        "evidence": action["evidence"],
        "rejected": [_alternative(other, names) for other in action["rejected"]],
    }


def _alternative(other: Mapping[str, Any], names: Names) -> dict[str, Any]:
    return {
        "server": _server(names, other["uuid"]),
        "domain": other["domain"],
        "why": other["why"],
        "hurt_ratio": other["hurt_ratio"],
    }


def _names(record: HostRecord) -> dict[str, str]:
    return {vp["uuid"]: vp["name"] for vp in record.report["vps"]}


def _server(names: Names, server_id: str) -> dict[str, Any]:
    """Id and name; a server that left the host has no name any more."""
    return {"server_id": server_id, "name": names.get(server_id)}
