# SPDX-License-Identifier: Apache-2.0
"""What a tenant is told about a server of its own: this module is the whole allow-list.

Only literal keys below ever reach a tenant. Free text of a report never does: reasons pass through
the rows of the installed controllers, results through tables of known words. Nothing names a host,
a neighbour, a CPU or a raw counter, and no moment is told to the second.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from nova_vp import controllers
from nova_vp.core.types.action import Result
from nova_vp.core.types.declaration import Figure
from nova_vp.core.types.guest import Isolation, Unmanaged
from nova_vp.core.types.service_level import ServiceClass
from nova_vp.db.records import StoredOverride, VpAt, VpHead
from nova_vp.degradation import Response
from nova_vp.interference import is_degraded
from nova_vp.latency_message import Ignored
from nova_vp.wire import CPU_RATIOS
from nova_vp.wire.schema_types import LEVELS
from vp_api.schemas.history import TENANT_METRICS
from vp_api.views import values
from vp_api.vp_groups import VpGroup
from vp_api.vp_report import Age, VpReport

OTHERWISE = "a setting of this server was changed within its host"
FOR_ANOTHER = "an action was applied for this server"
FOR_WHOM = ("victim", "on_behalf_of")
RESULTS = frozenset(result.value for result in Result)
ISOLATIONS = frozenset(isolation.value for isolation in Isolation)
CLASSES = frozenset(one.value for one in ServiceClass)
RESPONSES = frozenset(one.value for one in Response)
IGNORED = frozenset(one.value for one in Ignored)
SENSITIVITIES = ("cache", "memory", "remote-latency")
UNMANAGED = {
    Unmanaged.NUMA_TOPOLOGY.value: "the flavor or image asks for a NUMA topology",
    Unmanaged.DEDICATED_CPUS.value: "the flavor asks for dedicated CPUs",
    Unmanaged.HUGEPAGES.value: "the flavor asks for huge pages",
    Unmanaged.REALTIME.value: "the flavor asks for realtime CPUs",
    Unmanaged.OPTED_OUT.value: "the flavor has vp:manage=no",
    Unmanaged.EXEMPT.value: "an override exempts this server",
    Unmanaged.OVERRIDE_OBSERVE.value: "an override sets this server to mode observe",
    Unmanaged.INVALID_SPEC.value: "the flavor's vp: specs are not valid; contact your operator",
}


def summary(head: VpHead, age: Age) -> dict[str, Any]:
    is_stale = age.is_stale
    return {
        "server_id": head.uuid,
        "name": head.name,
        "project_id": head.project_id,
        "isolation": _known(head.isolation, ISOLATIONS),
        "is_stale": is_stale,
        "state": None if is_stale else values.state(head.state),
        "since": None if is_stale else values.to_minute(head.since),
        "hurt_by_neighbour": None if is_stale else head.is_hurt,
    }


def show(sighting: VpReport) -> dict[str, Any]:
    vp = sighting.vp
    return {
        **summary(sighting.head, sighting.age),
        "group": vp.get("group", ""),
        "sensitivity": [name for name in SENSITIVITIES if name in vp["sensitivity"]],
        "unmanaged": _unmanaged(vp["unmanaged"]),
        "last_known": _last_known(sighting) if sighting.age.is_stale else None,
        "actions": [
            told for one in vp["actions"] if (told := action(one, sighting.server_id)) is not None
        ],
    }


def since_1_1(told: Mapping[str, Any], sighting: VpReport) -> dict[str, Any]:
    """What its own vCPUs waited and were denied, in whole percent (None: unknown), and what
    controllers tell of it."""
    use = None if sighting.age.is_stale else sighting.vp.get("cpu_use")
    return {
        **told,
        "cpu_use": use and {name: round(use[name], 2) for name in CPU_RATIOS},
        "figures": {} if sighting.age.is_stale else _figures(sighting.vp.get("figures", {})),
    }


def _figures(reported: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """What installed controllers declare to be for tenants: their words, and whole numbers."""
    allowed = {
        name: {
            figure.name: _figure(figure, told[figure.name])
            for figure in controllers.figures(name)
            if figure.is_for_tenants and figure.name in told
        }
        for name, told in reported.items()
    }
    return {name: figures for name, figures in allowed.items() if figures}


def _figure(figure: Figure, value: Any) -> Any:
    if figure.words:
        return _known(value, figure.words)
    return round(value) if isinstance(value, int | float) else None


def since_1_2(told: Mapping[str, Any], sighting: VpReport) -> dict[str, Any]:
    """What it is for, and what its own application reported. None: it has no class."""
    return {**told, "service": service(sighting, values.to_minute)}


def service(sighting: VpReport, write: Callable[[float], str | None]) -> dict[str, Any] | None:
    """`write`: moments; an operator is told the second."""
    service = sighting.vp.get("service")
    if service is None:
        return None
    last = None if sighting.age.is_stale else service["reported"]
    return {
        "class": _known(service["class"], CLASSES),
        "latency_target_ms": service["latency_target_ms"],
        "latency_percentile": service["latency_percentile"],
        "max_load": service["max_load"],
        "may_suspend": service["may_suspend"],
        "reported": last
        and {
            "at": write(last["at"]),
            "latency_ms": last["latency_ms"],
            "load": last["load"],
        },
        "used": service["used"],
        "ignored": {why: n for why, n in service["ignored"].items() if why in IGNORED},
    }


def listed_service(head: VpHead, age: Age) -> dict[str, Any]:
    """As since 1.2: the same of one in a list, in short."""
    told = head.service
    if not told.service_class:
        return {"service": None}
    return {
        "service": {
            "class": _known(told.service_class, CLASSES),
            "latency_target_ms": told.latency_target_ms,
            "latency_ms": None if age.is_stale else told.latency_ms,
        }
    }


def group_state(group: VpGroup | None) -> dict[str, Any] | None:
    """As since 1.1: its VP of several servers, all of one project. None: it is alone."""
    if group is None:
        return None
    heads = [one.head for one in group.members]
    servers = [{"server_id": head.uuid, "name": head.name} for head in heads]
    return {"servers": servers, **_group_now(group)}


def listed_group(head: VpHead, group: VpGroup | None) -> dict[str, Any]:
    """As since 1.1: the same of one in a list, which has its servers anyway."""
    now = group and {"servers_count": len(group.members), **_group_now(group)}
    return {"group": head.group, "group_state": now}


def _group_now(group: VpGroup) -> dict[str, Any]:
    now = group.now
    return {
        "measured_servers": now.servers if now else 0,
        "state": values.state(now.state.number) if now else None,
    }


def overrides(found: StoredOverride | None) -> dict[str, Any]:
    """None: nothing is overridden. Not who did: that may have been an operator."""
    if found is None:
        return {"mode": None, "opt_out": False, "priority": None, "exempt": False}
    return {
        "mode": found.mode and found.mode.value,
        "opt_out": found.opt_out,
        "priority": found.priority,
        "exempt": found.exempt,
    }


def levels(found: StoredOverride | None) -> dict[str, Any]:
    """As since 1.2: what is set of its latency target, percentile and largest load."""
    return {name: getattr(found, name) if found else None for name in LEVELS}


STEPS_PERCENT = 10
LEAST_PERCENT = 5
"""Of one that is degraded at all."""


def degradation(head: VpHead, *, is_stale: bool) -> dict[str, Any]:
    """As since 1.4: about how much it loses, since when, and what is done; not to what. None:
    unknown."""
    found = None if is_stale else head.degradation
    return {
        "degradation": found
        and {
            "percent": _about(found.ratio),
            "since": values.to_minute(found.since),
            "response": found.response and _known(found.response, RESPONSES),
        }
    }


def _about(ratio: float | None) -> int | None:
    """In steps: exact figures, put together over time, would tell what a neighbour does."""
    if not ratio:
        return None if ratio is None else 0
    nearest = int(100 * ratio / STEPS_PERCENT + 0.5) * STEPS_PERCENT
    return max(min(nearest, 100), LEAST_PERCENT)


def history(one: VpAt, has_losses: bool) -> dict[str, Any]:
    """`has_losses`: as since 1.4, with about how much it lost, and waited for CPU."""
    waited = one.vp.waiting_ratio
    losses = {
        "degradation_percent": _about(one.vp.loss_ratio),
        "waiting_ratio": None if waited is None else round(waited, 2),
    }
    metrics = {name: one.vp.metrics.get(name, 0.0) for name in TENANT_METRICS}
    return {
        "at": values.datetime_to_minute(one.at),
        "state": values.state(one.vp.state),
        "hurt_by_neighbour": is_degraded(one.vp.state, one.vp.interference),
        "metrics": metrics if one.vp.metrics else None,
        **(losses if has_losses else {}),
    }


def one_a_minute(found: Iterable[VpAt]) -> list[VpAt]:
    """Two for one minute would tell that it moved from a host to another."""
    return list({one.at: one for one in found}.values())


def _last_known(sighting: VpReport) -> dict[str, Any]:
    head = sighting.head
    return {
        "at": values.datetime_to_minute(sighting.age.received_at),
        "state": values.state(head.state),
        "since": values.to_minute(head.since),
        "hurt_by_neighbour": head.is_hurt,
    }


def action(action: Mapping[str, Any], server_id: str) -> dict[str, Any] | None:
    """In the tenant's words, or None: an action that is not about this server, or that an operator
    rejected: of proposals tenants are told nothing."""
    if action["result"] == Result.REJECTED.value:
        return None
    own = server_id.lower()
    changed = {change["uuid"].lower() for change in action.get("changes", [])}
    reason = controllers.reasons().get(action["reason"])
    if action["uuid"].lower() == own:
        what = reason.own_label if reason else OTHERWISE
    elif own in ((action[key] or "").lower() for key in FOR_WHOM if key in action):
        what = reason.neighbour_label if reason else FOR_ANOTHER
    elif own in changed:
        what = OTHERWISE
    else:
        return None
    return {
        "at": values.to_minute(action["at"]),
        "what": what,
        "result": _known(action["result"], RESULTS),
    }


def _unmanaged(reason: str | None) -> dict[str, str] | None:
    """Only what the tenant's own flavor says; other reasons are the host's affair."""
    if reason not in UNMANAGED:
        return None
    return {"reason": str(reason), "detail": UNMANAGED[str(reason)]}


def _known(word: str, words: Collection[str]) -> str:
    return word if word in words else "unknown"
