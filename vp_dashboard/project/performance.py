# SPDX-License-Identifier: Apache-2.0
"""Servers, overlays and usage of the project; one server in detail."""

from typing import Any

from django.urls import path
from django.utils.translation import gettext_lazy as _

from vp_client.client import Client
from vp_dashboard import policies, server_page
from vp_dashboard.span import ASKED
from vp_dashboard.views import ROWS, VpView


class Performance(VpView):
    template_name = "vp_dashboard/project/performance.html"
    page_title = _("Performance")

    def read(self, client: Client) -> dict[str, Any]:
        """Three requests. Of a project: an administrator would be told of all."""
        own = {"project_id": self.request.user.project_id} if _sees_all(self.request) else {}
        chosen = self.chosen("marker")
        vps, marker = client.page("vps", ROWS, sort="degradation:desc", **own, **chosen)
        return {
            "vps": vps,
            "overlays": client.list_overlays(**own),
            "usage": client.list_usage(**own),
            "chosen": chosen,
            "next_page": self.next_page(marker),
        }


class Detail(VpView):
    template_name = "vp_dashboard/project/server.html"
    page_title = _("Server {% firstof vp.name server_id %}")

    def read(self, client: Client) -> dict[str, Any]:
        return server_page.read(client, self.kwargs["server_id"], self.chosen(*ASKED))


def _sees_all(request: Any) -> bool:
    return policies.allows(request, policies.SERVERS)


urlpatterns = [
    path("", Performance.as_view(), name="index"),
    path("<str:server_id>/", Detail.as_view(), name="detail"),
]
