# SPDX-License-Identifier: Apache-2.0
"""What a server or a flavor would meet on each host."""

from typing import Any

from django.urls import path
from django.utils.translation import gettext_lazy as _

from vp_client import host_formatters
from vp_client.client import Client
from vp_dashboard import names
from vp_dashboard.views import VpView


class WhatIf(VpView):
    template_name = "vp_dashboard/admin/what_if.html"
    page_title = _("What-if")

    def read(self, client: Client) -> dict[str, Any]:
        """One request for each thousand hosts, and those that find the server by its name; none
        until something is asked."""
        chosen = self.chosen("server_id", "flavor")
        try:
            hosts = _hosts(client, names.ids_of(client, chosen))
        except names.UNKNOWN as exc:
            return {"hosts": None, "chosen": chosen, "unknown": str(exc)}
        ranked = None if hosts is None else sorted(hosts, key=host_formatters.what_if_rank)
        return {"hosts": ranked, "chosen": chosen}


def _hosts(client: Client, chosen: dict[str, str]) -> list[dict[str, Any]] | None:
    if "server_id" in chosen:
        return client.what_if_server(chosen["server_id"])
    return client.what_if_flavor(chosen["flavor"]) if "flavor" in chosen else None


urlpatterns = [path("", WhatIf.as_view(), name="index")]
