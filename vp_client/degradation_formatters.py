# SPDX-License-Identifier: Apache-2.0
"""How much a server loses, as text: pure functions from an answer of the API to text.

Operators are told a ratio and a resource, tenants about how many percent.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from nova_vp.cli import labels
from nova_vp.core.types.policy import Mode
from nova_vp.degradation import Response
from vp_client import formatters

Told = Mapping[str, Any]

RESPONSES = {
    Response.ESCALATED.value: "no action on its host helps, so the cluster was asked",
    Response.PROPOSED.value: "an action waits until an operator accepts it",
    Response.ACTING.value: "nova-vp is acting",
    Response.NONE.value: "nova-vp does nothing about it now",
}


SHORT_RESPONSES = {
    Response.ESCALATED.value: "the cluster was asked",
    Response.PROPOSED.value: "waits for an operator",
    Response.ACTING.value: "acting",
    Response.NONE.value: "nothing",
}


def listed(vp: Told, *, is_brief: bool = False) -> str:
    """For a column: `21% cache`, `about 20%`, `no`. `is_brief`: without the resource."""
    told = vp.get("degradation")
    lost = _lost(told) if told else None
    if told is None or lost is None:
        return formatters.short_yes_no(vp["hurt_by_neighbour"])
    if not lost:
        return "no"
    if is_brief or not _is_exact(told):
        return _amount(told)
    return f"{_amount(told)} {formatters.point(told['kind'])}"


def short_response(response: str | None) -> str:
    """For a column. None, and the empty text that a template makes of what is not there: nothing
    degrades it, or nobody knows."""
    return SHORT_RESPONSES.get(response, response) if response else "-"


def value(vp: Told) -> float | None:
    """For machines: a ratio, to tenants in steps of a tenth."""
    told = vp.get("degradation")
    lost = _lost(told) if told else None
    return lost if told is None or lost is None or _is_exact(told) else lost / 100


def recorded(row: Told) -> float | None:
    """The same of a minute of a history."""
    percent = row.get("degradation_percent")
    return row.get("degradation_ratio") if percent is None else percent / 100


def recorded_text(row: Told) -> str:
    """For a column: where it was degraded, and by how much where that is known."""
    kind, lost = row.get("kind"), recorded(row)
    if not lost:
        where = formatters.point(kind) if kind else None
        return where or formatters.short_yes_no(row["hurt_by_neighbour"])
    if row.get("degradation_ratio") is None:
        return f"about {formatters.percent(lost)}"
    return f"{formatters.percent(lost)} {formatters.point(kind) if kind else ''}".rstrip()


def shown(told: Told | None) -> str:
    """In a table of one server."""
    if told is None:
        return formatters.UNKNOWN
    if told["response"] is None:
        return "none"
    cause = f" by {formatters.point(told['kind'])}" if _is_exact(told) else ""
    amount = "unknown" if _lost(told) is None else _amount(told)
    return formatters.wrap(f"{amount}{cause}, since {told['since']}: {_response(told)}")


def on_host(vp: Told) -> Iterator[str]:
    """Of a server among others of a host: whether a neighbour does it, and what it loses to what,
    whoever does it. None of a server that is well, or of which nobody knows."""
    if vp["hurt_by_neighbour"]:
        yield "degraded by a neighbour"
    told = vp.get("degradation")
    if told and _lost(told):
        yield f"loses {_amount(told)} by {formatters.point(told['kind'])}"


def loss(vp: Told) -> Iterator[str]:
    """A sentence of its own; none where it is not known how much."""
    told = vp.get("degradation")
    if told and _lost(told):
        yield f"It loses {_amount(told)} of its performance."


def sentence(vp: Told) -> str:
    """`loses about 20% to a neighbour since 2026-01-02T14:10:00Z; nova-vp is acting`."""
    told = vp.get("degradation")
    if told is None:
        return _without_figures(vp)
    if told["response"] is None:
        return "loses nothing to others"
    amount = "an unknown part of its performance" if _lost(told) is None else _amount(told)
    cause = " to a neighbour" if vp["hurt_by_neighbour"] else ""
    return f"loses {amount}{cause} since {told['since']}; {_response(told)}{_why_nothing(vp, told)}"


def _without_figures(vp: Told) -> str:
    """Nobody knows, or vp-api is of a release that does not say how much."""
    if vp["hurt_by_neighbour"] is not None:
        return f"degraded by a neighbour: {formatters.yes_no(vp['hurt_by_neighbour'])}"
    if vp.get("is_stale"):
        return "not known now: its host does not report"
    why = labels.INCOMPLETES.get(vp.get("incomplete") or "", "it is not measured now")
    return f"not known now: {why}"


def _why_nothing(vp: Told, told: Told) -> str:
    """Where something that was set forbids it. Tenants are not told of modes."""
    if told["response"] != Response.NONE.value:
        return ""
    if (vp.get("overrides") or {}).get("opt_out"):
        return ", because help for it was refused"
    if (vp.get("mode") or {}).get("mode") == Mode.OBSERVE.value:
        return ", because it is in mode observe"
    return ""


def _is_exact(told: Told) -> bool:
    return "ratio" in told


def _lost(told: Told) -> float | None:
    lost: float | None = told["ratio"] if _is_exact(told) else told["percent"]
    return lost


def _amount(told: Told) -> str:
    return formatters.percent(told["ratio"]) if _is_exact(told) else f"about {told['percent']}%"


def _response(told: Told) -> str:
    return RESPONSES.get(told["response"], formatters.or_unknown(told["response"]))
