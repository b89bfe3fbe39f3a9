# SPDX-License-Identifier: Apache-2.0
"""Servers, overlays and usage of the project; one server in detail."""

from typing import Any

from django.http import HttpResponseRedirect
from django.urls import path, reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from horizon import messages

from vp_client.client import Client
from vp_client.errors import VpError
from vp_dashboard import api, policies, server_page
from vp_dashboard.project.flavors import Flavors
from vp_dashboard.span import ASKED
from vp_dashboard.views import ROWS, VpView

OPT_OUT = {"true": True, "false": False}


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
    page_title = _("Server {% firstof name server_id %}")

    def read(self, client: Client) -> dict[str, Any]:
        server_id, asked = self.kwargs["server_id"], self.chosen(*ASKED)
        return server_page.read_own(self.request, client, server_id, asked)

    def post(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseRedirect:
        """Refuses help for the server or accepts it again, or sets its latency target."""
        server_id = self.kwargs["server_id"]
        try:
            if changes := _changes(request.POST):
                api.client_of(request).change_vp(server_id, **changes)
        except VpError as exc:
            messages.error(request, api.problem(exc))
        else:
            messages.success(request, _t("Set. Its host follows with its next report."))
        return HttpResponseRedirect(
            reverse("horizon:project:vp_performance:detail", args=(server_id,))
        )


def _changes(fields: Any) -> dict[str, Any]:
    """What the page offers to change. Raises VpError: that is no number."""
    if (opt_out := fields.get("opt_out")) in OPT_OUT:
        return {"opt_out": OPT_OUT[opt_out]}
    if "latency_target_ms" not in fields:
        return {}
    try:
        return {"latency_target_ms": float(fields["latency_target_ms"])}
    except ValueError:
        raise VpError(_t("Give the latency target as a number of milliseconds.")) from None


def _sees_all(request: Any) -> bool:
    return policies.allows(request, policies.SERVERS)


urlpatterns = [
    path("", Performance.as_view(), name="index"),
    path("flavors/", Flavors.as_view(), name="flavors"),
    path("<str:server_id>/", Detail.as_view(), name="detail"),
]
