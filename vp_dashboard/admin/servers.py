# SPDX-License-Identifier: Apache-2.0
"""Servers of all projects: who loses most first, and one in detail."""

from typing import Any

from django.urls import path
from django.utils.translation import gettext_lazy as _

from vp_client.client import Client
from vp_dashboard import server_page
from vp_dashboard.span import ASKED
from vp_dashboard.views import ROWS, VpView

FILTERS = ("host", "project_id", "name", "state", "hurt_by_neighbour")
SORT = "degradation:desc"


class Servers(VpView):
    template_name = "vp_dashboard/admin/servers.html"
    page_title = _("Servers")

    def read(self, client: Client) -> dict[str, Any]:
        """One request."""
        chosen = self.chosen(*FILTERS, "marker")
        vps, marker = client.page("vps", ROWS, sort=SORT, **chosen)
        return {
            "vps": vps,
            "chosen": chosen,
            "states": range(9),
            "next_page": self.next_page(marker),
        }


class Detail(VpView):
    template_name = "vp_dashboard/admin/server.html"
    page_title = _("Server {% firstof vp.name server_id %}")

    def read(self, client: Client) -> dict[str, Any]:
        return server_page.read(client, self.kwargs["server_id"], self.chosen(*ASKED))


urlpatterns = [
    path("", Servers.as_view(), name="index"),
    path("<str:server_id>/", Detail.as_view(), name="detail"),
]
