# SPDX-License-Identifier: Apache-2.0
"""What was done on all hosts, the newest first: at which time, for whom, and whether it helped."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.urls import path
from django.utils.translation import gettext_lazy as _

from nova_vp import timestamps
from nova_vp.action_results import RESULTS
from vp_client.client import Client
from vp_dashboard import api, comparison, span, texts, users
from vp_dashboard.views import VpView

MEASURED = 20
"""Rows of a page, from the first, whose effect is shown: each is a request of vp-api."""
AROUND_MIN = 10
"""Before and after the time that is asked for."""


class Actions(VpView):
    template_name = "vp_dashboard/admin/actions.html"
    page_title = _("Actions")

    def read(self, client: Client) -> dict[str, Any]:
        """One request, those that find a server by its name, and one for each of the newest actions
        whose effect is shown."""
        chosen = self.chosen("host", "server_id", "result", "marker")
        typed = self.request.GET.get("at", "")
        at = span.latest_moment(typed, datetime.now(UTC))
        within = span.around(at, AROUND_MIN) if at else {}
        found = self.listed(client, "actions", chosen, sort="at:desc", **within)
        shown = users.with_names(self.request, found["rows"])
        return {
            **found,
            "done": [_told(client, one, number) for number, one in enumerate(shown)],
            "chosen": chosen,
            "typed": typed,
            "is_no_time": bool(typed) and at is None,
            "within": within,
            "results": {code: texts.result(code) for code in RESULTS},
        }


def _told(client: Client, action: dict[str, Any], number: int) -> dict[str, Any]:
    """With the hour of the timeline that has it in its middle. `number`: of its row."""
    half = timedelta(minutes=30)
    at, helped = action["at"], action["victim"] or action["server"]
    end = timestamps.write(timestamps.read(at) + half) if at else ""
    is_measured = number < MEASURED or not comparison.is_measurable(action)
    measured = _measured(client, action, helped["server_id"]) if is_measured else None
    return {**action, "helped": helped, "end": end, "measured": measured}


def _measured(client: Client, action: dict[str, Any], server_id: str) -> comparison.Measured:
    rows = []
    if comparison.is_measurable(action):
        query = comparison.query_around(action["at"])
        with api.unless_unknown():
            rows = client.vp_history(server_id, None, **query)
    return comparison.measured(rows, action, 1, datetime.now(UTC))


urlpatterns = [path("", Actions.as_view(), name="index")]
