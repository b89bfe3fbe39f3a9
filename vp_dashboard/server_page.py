# SPDX-License-Identifier: Apache-2.0
"""One server: what is known of it now, and its history drawn. For operators and tenants: vp-api
gives each what it may see."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Any

from django.utils.translation import gettext_lazy as _

from vp_client import formatters
from vp_client.client import Client
from vp_client.errors import VpError
from vp_dashboard import api, comparison, keystone_names, policies, timeline
from vp_dashboard.span import SPANS, earlier_end, span_of
from vp_dashboard.timeline import Series

Told = dict[str, Any]
LAST_ACTIONS = 50
LONGEST_HOURS = max(SPANS)
MAY = {"may_opt_out": policies.OPT_OUT, "may_set_level": policies.SET_LEVEL}
UNKNOWN = _(
    "Nothing is known of this server. Either nova-vp does not run on its host, or the server has "
    "just been started, or it is not of this project. Compute, Performance lists the known servers "
    "of the project. A new server appears there within a minute."
)
"""To whoever may not look for it in the whole cloud."""


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


def read(
    request: Any, client: Client, server_id: str, asked: dict[str, str], *, is_operator: bool = True
) -> dict[str, Any]:
    """The context of a page. Four requests, and two more where two times are compared. `asked`: of
    the address. `is_operator`: of a server that is gone."""
    vp = None
    with api.unless_unknown():
        vp = client.show_vp(server_id)
    if vp is None:
        asked = {"hours": str(LONGEST_HOURS), **asked}
    page = _recorded(request, client, server_id, asked, has_ended=vp is None)
    return {
        **page,
        "vp": vp,
        "name": vp["name"] if vp else _name(server_id, page["done"]),
        "is_operator": "host" in vp if vp else is_operator,
    }


def _recorded(
    request: Any, client: Client, server_id: str, asked: Mapping[str, str], *, has_ended: bool
) -> dict[str, Any]:
    """Its history and actions; `has_ended`: the latest actions, whenever they were. Horizon shows
    `actions` of a context above the page."""
    span = span_of(asked)
    history = client.vp_history(server_id, None, every=str(span.every_min), **span.query)
    actions = client.vp_actions(server_id, LAST_ACTIONS, **({} if has_ended else span.query))
    done = filter(comparison.was_done, actions)
    events = [(one["at"], f"{_what(one)}: {one['result']}") for one in done]
    events += _moves(history)
    now = datetime.now(UTC)
    changed = [one["at"] for one in actions if comparison.was_done(one)]
    minutes = history if span.is_by_minute else None
    told = [_done(one, changed, minutes, now) for one in actions]
    earlier = earlier_end(history, span, partial(client.vp_history, server_id, 1))
    return {
        "history": history,
        "done": keystone_names.with_users(request, told),
        "chart": timeline.chart(history, SERIES, events, span.every_min, now, span.closer_hours),
        "span": span,
        "spans": list(SPANS),
        "earlier": earlier,
        **_compared(client, server_id, asked, None if earlier else history),
    }


def read_own(request: Any, client: Client, server_id: str, asked: dict[str, str]) -> dict[str, Any]:
    """The context of a page that a server's project has, too. Raises VpError."""
    is_operator = policies.allows(request, policies.SERVERS)
    page = None
    with api.unless_unknown():
        page = read(request, client, server_id, asked, is_operator=is_operator)
    if page is None:
        raise VpError(UNKNOWN)
    may = {name: policies.allows(request, rule) for name, rule in MAY.items()}
    return {**page, **may}


def _name(server_id: str, actions: Iterable[Told]) -> str:
    """Of a server that is gone, as its actions have it; to tenants these tell of no server."""
    told = [one[role] for one in actions for role in ("server", "victim") if one.get(role)]
    own = (one["name"] for one in told if one["server_id"].lower() == server_id.lower())
    return next(filter(None, own), server_id)


def _compared(
    client: Client, server_id: str, asked: Mapping[str, str], all_of_it: Sequence[Told] | None
) -> dict[str, Any]:
    """`all_of_it`: the whole history, where nothing is recorded before it."""
    times = comparison.times_of(asked)
    if times is None:
        given = {name: asked.get(name, "") for name in ("a", "b")}
        wrong = given if any(given.values()) else None
        return {"times": None, "lengths": comparison.MINUTES, "wrong_times": wrong}
    before, after = (
        client.vp_history(server_id, None, **times.query(begin)) for begin in (times.a, times.b)
    )
    return {
        "times": times,
        "lengths": comparison.MINUTES,
        "compared": comparison.compare(before, after),
        "is_before_unknown": not before,
        "younger_since": comparison.younger_since(times, before, all_of_it or ()),
    }


def _done(
    action: Told, changed: Iterable[str], minutes: Iterable[Told] | None, now: datetime
) -> dict[str, Any]:
    """With what this server lost before and after it. `changed`: when something was changed for
    it. `minutes`: the history; None: it is not by minute."""
    at = action["at"]
    return {
        **action,
        "text": _what(action),
        "measured": comparison.measured(minutes, action, now, changed),
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
