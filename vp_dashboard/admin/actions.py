# SPDX-License-Identifier: Apache-2.0
"""What was done on all hosts, the newest first: at which time, for whom, and whether it helped."""

from datetime import UTC, datetime, timedelta
from typing import Any

from django.urls import path
from django.utils.translation import gettext_lazy as _

from nova_vp import timestamps
from nova_vp.action_results import RESULTS
from vp_client.client import Client
from vp_dashboard import span, texts
from vp_dashboard.views import VpView

AROUND_MIN = 10
"""Before and after the time that is asked for."""


class Actions(VpView):
    template_name = "vp_dashboard/admin/actions.html"
    page_title = _("Actions")

    def read(self, client: Client) -> dict[str, Any]:
        """One request, and those that find a server by its name."""
        chosen = self.chosen("host", "server_id", "result", "marker")
        typed = self.request.GET.get("at", "")
        at = span.latest_moment(typed, datetime.now(UTC))
        within = span.around(at, AROUND_MIN) if at else {}
        found = self.listed(client, "actions", chosen, sort="at:desc", **within)
        return {
            **found,
            "done": [_told(one) for one in found["rows"]],
            "chosen": chosen,
            "typed": typed,
            "is_no_time": bool(typed) and at is None,
            "within": within,
            "results": {code: texts.result(code) for code in RESULTS},
        }


def _told(action: dict[str, Any]) -> dict[str, Any]:
    """With the hour of the timeline that has it in its middle."""
    half = timedelta(minutes=30)
    at = action["at"]
    end = timestamps.write(timestamps.read(at) + half) if at else ""
    return {**action, "helped": action["victim"] or action["server"], "end": end}


urlpatterns = [path("", Actions.as_view(), name="index")]
