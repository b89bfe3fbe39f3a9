# SPDX-License-Identifier: Apache-2.0
"""One server: what is known of it now, and its history drawn. For operators and tenants: vp-api
gives each what it may see."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any

from django.utils.translation import gettext_lazy as _

from vp_client import formatters
from vp_client.client import Client
from vp_dashboard import comparison, policies, timeline
from vp_dashboard.span import SPANS, span_of
from vp_dashboard.timeline import Series

Told = dict[str, Any]
LAST_ACTIONS = 50


def _state(row: Mapping[str, Any]) -> float | None:
    return row["state"]["number"] if row["state"] else None


SERIES = (
    Series(_("Performance in %"), comparison.performance_percent, most=100.0),
    Series(_("State"), _state, most=8.0),
    Series(_("CPU waiting in %"), comparison.waiting_percent),
    Series("MPKI", comparison.metric("mpki")),
    Series("CPI", comparison.metric("cpi")),
    Series(_("CPU cores"), comparison.metric("cpu_cores")),
)


def read(client: Client, server_id: str, asked: dict[str, str]) -> dict[str, Any]:
    """The context of a page. Three requests, and two more where two times are compared. `asked`: of
    the address. Horizon shows `actions` of a context above the page."""
    span = span_of(asked)
    vp = client.show_vp(server_id)
    history = client.vp_history(server_id, None, every=str(span.every_min), **span.query)
    actions = client.vp_actions(server_id, LAST_ACTIONS, **span.query)
    done = filter(comparison.was_done, actions)
    events = [(one["at"], f"{_what(one)}: {one['result']}") for one in done]
    events += _moves(history)
    return {
        "vp": vp,
        "history": history,
        "done": [_done(one, history, span.every_min) for one in actions],
        "chart": timeline.chart(history, SERIES, events, span.every_min, span.closer_hours),
        "span": span,
        "spans": list(SPANS),
        "earlier": history[0]["at"] if history else None,
        "is_operator": "host" in vp,
        **_compared(client, server_id, asked),
    }


def read_own(request: Any, client: Client, server_id: str, asked: dict[str, str]) -> dict[str, Any]:
    """The context of a page that a server's project has, too."""
    page = read(client, server_id, asked)
    return {**page, "may_opt_out": policies.allows(request, policies.OPT_OUT)}


def _compared(client: Client, server_id: str, asked: Mapping[str, str]) -> dict[str, Any]:
    times = comparison.times_of(asked)
    if times is None:
        given = {name: asked.get(name, "") for name in ("a", "b")}
        wrong = given if any(given.values()) else None
        return {"times": None, "lengths": comparison.MINUTES, "wrong_times": wrong}
    before, after = (
        client.vp_history(server_id, None, **times.query(begin)) for begin in (times.a, times.b)
    )
    lines = comparison.compare(before, after)
    return {"times": times, "lengths": comparison.MINUTES, "compared": lines}


def _done(action: Told, history: Iterable[Told], every_min: int) -> dict[str, Any]:
    """With what this server lost before and after it."""
    at = action["at"]
    return {
        **action,
        "text": _what(action),
        "effect": comparison.effect(history, action, every_min),
        "around": comparison.around(at) if at else None,
    }


def _moves(history: Iterable[Told]) -> Iterator[tuple[str, str]]:
    """To other hosts, where they are told."""
    for before, now in pairwise(history):
        if before.get("host") != now.get("host"):
            yield (
                now["at"],
                _("migrated from %(old)s to %(new)s")
                % {
                    "old": before["host"],
                    "new": now["host"],
                },
            )


def _what(action: Told) -> str:
    return str(action["what"]) if "what" in action else formatters.deed(action)
