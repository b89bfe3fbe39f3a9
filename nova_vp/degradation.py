# SPDX-License-Identifier: Apache-2.0
"""How much a server loses, to what, since when, and what is done about it, as lists show it; pure.

One answer for all who tell, made of the report of the server's host.
"""

import enum
from collections.abc import Mapping
from typing import Any, NamedTuple

from nova_vp.core.types.action import Result

Told = Mapping[str, Any]
DIGITS = 3
"""Of a ratio, in lists and everywhere else: one that changes less is written nowhere anew."""


class Response(enum.Enum):
    """What is done for a degraded server."""

    ESCALATED = "escalated"
    """Nothing on its host helps, and the cluster was asked."""
    PROPOSED = "proposed"
    """An action for it waits until an operator accepts it."""
    ACTING = "acting"
    """An action for it was applied since it is degraded, and was not reverted."""
    NONE = "none"
    """Nothing, now."""


class Degradation(NamedTuple):
    """Of one server. The defaults: nothing degrades it."""

    ratio: float | None = 0.0
    """Share of its performance; None: its agent does not say."""
    kind: str | None = None
    """The resource: a value of `nova_vp.core.types.detection.Kind`."""
    since: int | None = None
    """Seconds since 1970 by the clock of the host."""
    response: str | None = None
    """A value of `Response`."""


WELL = Degradation()
_STANDS = frozenset({Result.APPLIED.value, Result.MENDED.value, Result.UNJUDGED.value})


def degradation_of(report: Told, vp: Told) -> Degradation | None:
    """Of one of the report's `vps`. None: nobody knows whether anything degrades it."""
    found = vp["interference"]
    if found is None:
        return None if vp["state"] is None else WELL
    loss = found.get("loss_ratio")
    return Degradation(
        ratio=None if loss is None else min(round(loss, DIGITS), 1.0),
        kind=found["kind"],
        since=int(found["since"]),
        response=_response(report, vp, found["since"]).value,
    )


def _response(report: Told, vp: Told, since: float) -> Response:
    own = vp["uuid"].lower()
    if any(one["victim"].lower() == own for one in report.get("escalations", ())):
        return Response.ESCALATED
    if any(_is_for(one, own) for one in report["proposals"]):
        return Response.PROPOSED
    done = (one for one in vp["actions"] if _is_for(one, own) and one["at"] >= since)
    if any(one["result"] in _STANDS for one in done):
        return Response.ACTING
    return Response.NONE


def _is_for(action: Told, own: str) -> bool:
    return (action["victim"] or "").lower() == own
