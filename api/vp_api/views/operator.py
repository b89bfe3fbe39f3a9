# SPDX-License-Identifier: Apache-2.0
"""What an operator is told: everything a report has, with names beside ids and ages beside values.

Codes are for programs; the `meaning` beside one is for people. What older agents do not report is
empty or null. Nothing here may be given to a tenant; `tenant.py` is the only other view.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from nova_vp.cli import labels
from nova_vp.cloud_modes import source_text
from nova_vp.core.types.mode_levels import ModeLevel
from nova_vp.core.types.policy import known_mode
from nova_vp.db.records import (
    HostRecord,
    HostSummary,
    StoredOverride,
    VpHead,
    concerned,
)
from vp_api.views import actions, tenant, values
from vp_api.vp_groups import VpGroup
from vp_api.vp_report import Age, VpReport

_CELL = ("id", "cpus", "free_cores", "vcpus", "misses_per_s")
NOTHING_KNOWN = {"state": None, "since": None, "incomplete": None, "hurt_by_neighbour": None}
"""What holds now, of a host that is silent."""


def host_summary(one: HostSummary, age: Age) -> dict[str, Any]:
    return {
        "name": one.host,
        "mode": one.mode,
        "counters": one.counters,
        "vps_count": one.vps_count,
        "hurt_count": None if age.is_stale else one.hurt_count,
        **_age(age),
    }


def host(
    record: HostRecord, age: Age, llc_permits_per_domain: float, *, is_full: bool
) -> dict[str, Any]:
    """`llc_permits_per_domain`: what may be booked, 0: any number. `is_full`: as since 1.1."""
    report = record.report
    names = _names(record)
    sightings = [VpReport(record, age, vp) for vp in report["vps"]]
    told = {
        **host_summary(_summary(record, sightings), age),
        "actuator": report["actuator"],
        "cells": _cells(report["domains"], sightings if is_full else None, llc_permits_per_domain),
        "nodes": report.get("nodes", []),
        "vps": [{**vp_summary(s.head, age), "domains": s.vp["domains"]} for s in sightings],
        "proposals": [actions.action(action, names) for action in report["proposals"]],
        **_under_way(record),
    }
    if not is_full:
        return told
    return {
        **told,
        "hypervisor": report.get("hypervisor", ""),
        "knobs": report.get("knobs", []),
        "steal_ratio": None if age.is_stale else report.get("steal_ratio"),
        "contention": [] if age.is_stale else _contention(sightings),
        "unmanaged_suspects": [] if age.is_stale else _left_alone(sightings),
    }


_ISLAND_SINCE_1_4 = ("nodes", "borrowed")


def overlays_of_host(record: HostRecord, *, has_loans: bool) -> dict[str, Any]:
    """Its islands, and what overlays hold there: as far as its agent says. `has_loans`: as since
    1.4, with the memory of islands, and whose the CPUs are that they borrowed."""
    names = _names(record)
    return {
        "islands": [
            {
                "problem": "",
                **{name: one[name] for name in one if name not in _ISLAND_SINCE_1_4},
                **({name: one.get(name) for name in _ISLAND_SINCE_1_4} if has_loans else {}),
                "servers": [actions.server(names, uuid) for uuid in one["servers"]],
            }
            for one in record.report.get("islands", ())
        ],
        "overlays": [
            {**one, "boosted": [actions.server(names, uuid) for uuid in one["boosted"]]}
            for one in record.report.get("overlays", ())
        ],
    }


def _summary(record: HostRecord, sightings: Sequence[VpReport]) -> HostSummary:
    return HostSummary(
        host=record.host,
        mode=record.mode,
        mode_source=source_text(record.report),
        received_at=record.received_at,
        counters=record.report["counters"],
        vps_count=len(sightings),
        hurt_count=sum(s.head.is_hurt is True for s in sightings),
    )


def mode_source(stored: str | None) -> dict[str, str] | None:
    """As since 1.3: on which level a host's mode is set. `stored`: as `HostSummary` has it."""
    if stored is None:
        return None
    level, _, name = stored.partition(":")
    return {"level": level, "name": name}


_HEAT = ("id", "node", "cpus", "free_cores", "vcpus", "misses_per_s", "servers_count")


def heat(found: Mapping[str, Any] | None, *, is_stale: bool, has_losses: bool) -> dict[str, Any]:
    """As since 1.3: its LLC domains with the states of who runs there, and its NUMA nodes. What
    holds now, of a host that is silent, nobody knows. `has_losses`: as since 1.4, with what the
    server loses that loses most there; None: nobody runs there, or its agent does not say."""
    if found is None or is_stale:
        return {"domains": [], "nodes": []}
    domains = [
        {
            **{name: one[name] for name in _HEAT},
            "hurt_count": one["hurt_count"],
            **({"worst_ratio": one.get("worst_ratio")} if has_losses else {}),
            "states": [
                {"state": values.state(int(number)), "servers_count": count}
                for number, count in sorted(one["states"].items())
            ],
        }
        for one in found["domains"]
    ]
    return {"domains": domains, "nodes": found["nodes"]}


def modes_of_host(report: Mapping[str, Any]) -> dict[str, Any]:
    """As since 1.3: where its mode is set, and what is set on each level that holds for it."""
    levels = [
        {**one, "mode": known_mode(one["mode"]).value}
        for one in report.get("modes", {}).get("levels", [])
    ]
    return {"mode_source": mode_source(source_text(report)), "mode_levels": levels}


def _contention(sightings: Iterable[VpReport]) -> list[dict[str, Any]]:
    """Who suffers from what, whether a neighbour does it or not."""
    hurt: dict[str, list[dict[str, Any]]] = {}
    for sighting in sightings:
        if found := sighting.vp["interference"]:
            who = {"server_id": sighting.server_id, "name": sighting.vp["name"]}
            hurt.setdefault(found["kind"], []).append(who)
    return [
        {"kind": kind, "meaning": labels.kind(kind), "servers": hurt[kind]} for kind in sorted(hurt)
    ]


def _left_alone(sightings: Iterable[VpReport]) -> list[dict[str, Any]]:
    """Who degrades others and is never changed, and why."""
    vps = [sighting.vp for sighting in sightings]
    suspects = {
        suspect["uuid"]
        for vp in vps
        if vp["interference"]
        for suspect in vp["interference"]["suspects"]
    }
    return [
        {"server_id": vp["uuid"], "name": vp["name"], **told}
        for vp in vps
        if vp["uuid"] in suspects and (told := _unmanaged(vp))
    ]


def vp_summary(head: VpHead, age: Age) -> dict[str, Any]:
    return {
        "server_id": head.uuid,
        "name": head.name,
        "project_id": head.project_id,
        "host": head.host,
        "isolation": head.isolation,
        **_age(age),
        **(NOTHING_KNOWN if age.is_stale else _reported(head)),
    }


def vp(sighting: VpReport) -> dict[str, Any]:
    vp, names = sighting.vp, _names(sighting.record)
    return {
        **vp_summary(sighting.head, sighting.age),
        "flavor": vp["flavor"],
        "vcpus": vp["vcpus"],
        "vp_id": vp.get("vp_id", vp["uuid"]),
        "group": vp.get("group", ""),
        "priority": vp.get("priority"),
        "cap_floor_ratio": vp.get("cap_floor_ratio"),
        "unmanaged": _unmanaged(vp),
        "domains": vp["domains"],
        "cpus": vp["cpus"],
        "cap": vp.get("cap"),
        "memory": vp.get("memory"),
        "memory_obstacle": vp.get("memory_obstacle", ""),
        "sensitivity": vp["sensitivity"],
        "metrics": None if sighting.age.is_stale else vp["metrics"],
        "interference": None if sighting.age.is_stale else _interference(vp, names),
        "last_known": _last_known(sighting, names) if sighting.age.is_stale else None,
        "actions": [actions.action(action, names) for action in vp["actions"]],
        "proposals": [
            actions.action(action, names)
            for action in sighting.record.report["proposals"]
            if vp["uuid"].lower() in concerned(action)
        ],
        **_under_way(sighting.record, vp["uuid"]),
    }


def since_1_1(told: Mapping[str, Any], sighting: VpReport) -> dict[str, Any]:
    """`cpu_use`: None: unknown. `figures`: what controllers tell of it, by controller."""
    now = {"cpu_use": sighting.vp.get("cpu_use"), "figures": sighting.vp.get("figures", {})}
    if not sighting.age.is_stale:
        return {**told, **now}
    return {**told, "cpu_use": None, "figures": {}, "last_known": {**told["last_known"], **now}}


def since_1_2(told: Mapping[str, Any], sighting: VpReport) -> dict[str, Any]:
    """As tenants are told it, to the second."""
    return {**told, "service": tenant.service(sighting, values.iso)}


def since_1_3(told: Mapping[str, Any], sighting: VpReport) -> dict[str, Any]:
    """What holds for it, and where that is set; where a host that only observes would place it."""
    report, own = sighting.record.report, sighting.vp.get("mode")
    source = mode_source(source_text(report)) or {"level": ModeLevel.HOST.value, "name": ""}
    if own is not None:
        source = {"level": ModeLevel.SERVER.value, "name": ""}
    holds = known_mode(own).value if own else sighting.record.mode
    mode = {"mode": holds, "source": source}
    return {**told, "mode": mode, "virtual_domains": sighting.vp.get("virtual_domains", [])}


def degradation(head: VpHead, *, is_stale: bool) -> dict[str, Any]:
    """As since 1.4: how much it loses, to what, since when, and what is done. None: unknown."""
    found = None if is_stale else head.degradation
    told = found and {**found._asdict(), "since": values.iso(found.since)}
    return {"degradation": told}


def losses_on_host(told: Iterable[Mapping[str, Any]], record: HostRecord, age: Age) -> Any:
    """As since 1.4: the `vps` of a host, each with its degradation."""
    return [
        {**one, **degradation(VpReport(record, age, vp).head, is_stale=age.is_stale)}
        for one, vp in zip(told, record.report["vps"], strict=True)
    ]


def group_state(group: VpGroup | None) -> dict[str, Any] | None:
    """As since 1.1: its VP of several servers, with their counters together. None: it is alone."""
    told = tenant.group_state(group)
    if group is None or told is None:
        return None
    now, listed = group.now, zip(told["servers"], group.members, strict=True)
    servers = [{**one, "host": member.head.host} for one, member in listed]
    return {**told, "servers": servers, "metrics": now.metrics if now else None}


def _under_way(record: HostRecord, uuid: str | None = None) -> dict[str, Any]:
    """What nobody can accept or refuse; with `uuid` that of one server."""
    report, names = record.report, _names(record)
    return {
        "memory_moves": [
            actions.memory_move(move, names)
            for move in report.get("memory_moves", [])
            if uuid in (None, move["uuid"])
        ],
        "escalations": [
            actions.escalation(one, names)
            for one in report.get("escalations", [])
            if uuid in (None, one["victim"])
        ],
    }


def overrides(found: StoredOverride | None) -> dict[str, Any]:
    """None: nothing is overridden."""
    if found is None:
        return {**tenant.overrides(None), "by": None, "at": None}
    return {
        **tenant.overrides(found),
        "by": found.by,
        "at": values.iso_datetime(found.at),
    }


def _age(age: Age) -> dict[str, Any]:
    return {
        "reported_at": values.iso_datetime(age.received_at),
        "age_s": age.age_s,
        "is_stale": age.is_stale,
    }


def _reported(head: VpHead) -> dict[str, Any]:
    return {
        "state": values.state(head.state),
        "since": values.iso(head.since),
        "incomplete": head.incomplete,
        "hurt_by_neighbour": head.is_hurt,
    }


def _last_known(sighting: VpReport, names: actions.Names) -> dict[str, Any]:
    return {
        "at": values.iso_datetime(sighting.age.received_at),
        **_reported(sighting.head),
        "metrics": sighting.vp["metrics"],
        "interference": _interference(sighting.vp, names),
    }


def _cells(
    domains: Iterable[Mapping[str, Any]], sightings: Sequence[VpReport] | None, most_permits: float
) -> list[dict[str, Any]]:
    """LLC domains by NUMA cell; unless `sightings` is None as since 1.1: with who runs where, what
    newcomers would cost (None: its agent does not say), and what permits are booked."""
    cells: dict[int, list[dict[str, Any]]] = {}
    for domain in domains:
        told = {key: domain[key] for key in _CELL}
        if sightings is not None:
            if "llc_permits" in domain:
                booked = domain["llc_permits"]
                free = max(most_permits - booked, 0.0) if most_permits else None
                told["llc_permits"] = {"booked": booked, "free": free}
            told["servers"] = [
                {"server_id": s.server_id, "name": s.vp["name"]}
                for s in sightings
                if domain["id"] in s.vp["domains"]
            ]
            told["newcomer_losses"] = domain.get("newcomer_losses")
        cells.setdefault(domain["node"], []).append(told)
    return [{"id": node, "domains": cells[node]} for node in sorted(cells)]


def _unmanaged(vp: Mapping[str, Any]) -> dict[str, str] | None:
    if vp["unmanaged"] is None:
        return None
    return {"reason": vp["unmanaged"], "detail": vp["unmanaged_detail"]}


def _interference(vp: Mapping[str, Any], names: actions.Names) -> dict[str, Any] | None:
    found = vp["interference"]
    if found is None:
        return None
    suspects = [
        {**actions.server(names, suspect["uuid"]), "rise_per_s": suspect["rise_per_s"]}
        for suspect in found["suspects"]
    ]
    return {
        "kind": found["kind"],
        "meaning": labels.kind(found["kind"]),
        "since": values.iso(found["since"]),
        "suspects": suspects,
        "refused": [actions.alternative(other, names) for other in found["refused"]],
    }


def _names(record: HostRecord) -> dict[str, str]:
    return {vp["uuid"]: vp["name"] for vp in record.report["vps"]}
