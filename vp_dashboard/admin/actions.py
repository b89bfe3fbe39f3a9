# SPDX-License-Identifier: Apache-2.0
"""What was done on all hosts, the newest first: at which time, for whom, and whether it helped."""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.urls import path
from django.utils.translation import gettext_lazy as _

from nova_vp import timestamps
from nova_vp.action_results import RESULTS
from vp_client.client import Client
from vp_dashboard import api, comparison, keystone_names, span, texts
from vp_dashboard.views import VpView

Told = dict[str, Any]
_Recorded = tuple[list[Told], list[str]]
"""Of a server around some actions: its history, and when actions changed something for it."""

MEASURED = 20
"""Rows of a page, from the first, whose effect is shown."""
MOST_APART = timedelta(hours=1)
"""Between two actions for one server whose records are asked for together."""
LAST_ACTIONS = 100
"""Of a server, around those."""
AROUND_MIN = 10
"""Before and after the time that is asked for."""


class Actions(VpView):
    template_name = "vp_dashboard/admin/actions.html"
    page_title = _("Actions")

    def read(self, client: Client) -> dict[str, Any]:
        """One request, those that find a server by its name, and two for each server and hour in
        which something was done whose effect is shown."""
        chosen = self.chosen("host", "server_id", "result", "marker")
        typed = self.request.GET.get("at", "")
        at = span.latest_moment(typed, datetime.now(UTC))
        within = span.around(at, AROUND_MIN) if at else {}
        found = self.listed(client, "actions", chosen, sort="at:desc", **within)
        shown = keystone_names.with_users(self.request, found["rows"])
        return {
            **found,
            "done": list(map(_told, shown, _measured(client, shown))),
            "chosen": chosen,
            "typed": typed,
            "is_no_time": bool(typed) and at is None,
            "within": within,
            "results": {code: texts.result(code) for code in RESULTS},
        }


def _told(action: Told, measured: comparison.Measured | None) -> Told:
    """With the hour of the timeline that has it in its middle, and the times to compare."""
    half = timedelta(minutes=30)
    at = action["at"]
    end = timestamps.write(timestamps.read(at) + half) if at else ""
    around = comparison.around(at) if comparison.was_done(action) else None
    return {
        **action,
        "helped": comparison.helped(action),
        "end": end,
        "around": around,
        "measured": measured,
    }


def _measured(client: Client, shown: Sequence[Told]) -> Iterator[comparison.Measured | None]:
    """Of each in turn; None: of those further down."""
    now = datetime.now(UTC)
    asked = [one for one in shown[:MEASURED] if comparison.is_measurable(one)]
    recorded: dict[tuple[str, str], _Recorded] = {}
    for group in _together(asked):
        recorded |= dict.fromkeys(map(_key, group), _recorded(client, group))
    for one in shown:
        history, others = recorded.get(_key(one), (None, ()))
        yield comparison.measured(history, one, now, others)


def _key(action: Told) -> tuple[str, str]:
    """What one host calls an action, another may call one of its own."""
    return (action["host"], action["id"])


def _together(actions: Iterable[Told]) -> Iterator[list[Told]]:
    """Of one server and about one time, in their order of time."""
    group: list[Told] = []
    for one in sorted(actions, key=lambda one: (comparison.helped(one)["server_id"], one["at"])):
        if group and (
            comparison.helped(group[-1])["server_id"] != comparison.helped(one)["server_id"]
            or timestamps.read(one["at"]) - timestamps.read(group[-1]["at"]) > MOST_APART
        ):
            yield group
            group = []
        group.append(one)
    if group:
        yield group


def _recorded(client: Client, group: Sequence[Told]) -> _Recorded:
    server_id = comparison.helped(group[0])["server_id"]
    query = comparison.query_around(group[0]["at"], group[-1]["at"])
    history: list[Told] = []
    others: list[str] = []
    with api.unless_unknown():
        history = client.vp_history(server_id, None, every="1", **query)
        actions = client.vp_actions(server_id, LAST_ACTIONS, **query)
        others = comparison.concerning(actions, server_id)
    return history, others


urlpatterns = [path("", Actions.as_view(), name="index")]
