# SPDX-License-Identifier: Apache-2.0
"""What a server or a flavor would meet on each host."""

from typing import Any

from django.urls import path
from django.utils.translation import gettext_lazy as _

from vp_client import host_formatters
from vp_client.client import Client, WhatIfAnswer
from vp_dashboard import names
from vp_dashboard.views import VpView

TAKEN_FOR = {
    "measured": _("The state that was measured while no neighbour degraded the server:"),
    "flavor": _("The state that the flavor declares:"),
    "learned": _(
        "Its state is unknown, so state 4 is assumed. Others are predicted to lose no more than "
        "to most servers of this flavor."
    ),
    "unknown": _("Its state is unknown, so state 4 is assumed."),
}
"""By where its state is from."""
BOTH = _("Ask about a server or about a flavor, not about both.")


class WhatIf(VpView):
    template_name = "vp_dashboard/admin/what_if.html"
    page_title = _("What-if")

    def read(self, client: Client) -> dict[str, Any]:
        """One request for each thousand hosts, and those that find the server by its name; none
        until something is asked."""
        chosen = self.chosen("server_id", "flavor")
        if len(chosen) > 1:
            return {"hosts": None, "chosen": chosen, "unknown": BOTH}
        try:
            told = _told(client, names.ids_of(client, chosen))
        except names.UNKNOWN as exc:
            return {"hosts": None, "chosen": chosen, "unknown": str(exc)}
        if told is None:
            return {"hosts": None, "chosen": chosen}
        return {
            "hosts": host_formatters.by_what_is_lost(told),
            "newcomer": told.newcomer,
            "taken_for": TAKEN_FOR.get(told.newcomer["source"], ""),
            "chosen": chosen,
        }


def _told(client: Client, chosen: dict[str, str]) -> WhatIfAnswer | None:
    if "server_id" in chosen:
        return client.what_if_server(chosen["server_id"])
    return client.what_if_flavor(chosen["flavor"].strip()) if "flavor" in chosen else None


urlpatterns = [path("", WhatIf.as_view(), name="index")]
