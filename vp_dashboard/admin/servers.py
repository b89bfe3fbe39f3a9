# SPDX-License-Identifier: Apache-2.0
"""Servers of all projects: who loses most first, and one in detail."""

from typing import Any

from django.urls import path
from django.utils.translation import gettext_lazy as _

from vp_client.client import Client
from vp_dashboard import server_page, states
from vp_dashboard.span import ASKED
from vp_dashboard.views import VpView

FILTERS = ("host", "project_id", "name", "state", "hurt_by_neighbour")
SORT = "degradation:desc"


class Servers(VpView):
    template_name = "vp_dashboard/admin/servers.html"
    page_title = _("Servers")

    def read(self, client: Client) -> dict[str, Any]:
        """One request, and those that find names."""
        chosen = self.chosen(*FILTERS, "marker")
        found = self.listed(client, "vps", chosen, sort=SORT)
        if not found["rows"] and list(chosen) == ["name"]:
            found["rows"] = client.renamed_vps(chosen["name"])
        return {"chosen": chosen, "states": states.choices(), **found}


class Detail(VpView):
    template_name = "vp_dashboard/admin/server.html"
    page_title = _("Server {% firstof name server_id %}")

    def read(self, client: Client) -> dict[str, Any]:
        return server_page.read(self.request, client, self.kwargs["server_id"], self.chosen(*ASKED))


urlpatterns = [
    path("", Servers.as_view(), name="index"),
    path("<str:server_id>/", Detail.as_view(), name="detail"),
]
