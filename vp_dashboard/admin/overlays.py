# SPDX-License-Identifier: Apache-2.0
"""Overlays of all projects, and what one holds."""

from typing import Any

from django.urls import path
from django.utils.translation import gettext_lazy as _

from vp_client.client import Client
from vp_dashboard.views import VpList, VpView


class Overlays(VpList):
    template_name = "vp_dashboard/admin/overlays.html"
    page_title = _("Overlays")
    resource = "overlays"
    filters = ("project_id",)


class Detail(VpView):
    template_name = "vp_dashboard/admin/overlay.html"
    page_title = _("Overlay {% firstof overlay.name overlay_id %}")

    def read(self, client: Client) -> dict[str, Any]:
        """One request."""
        return {"overlay": client.show_overlay(self.kwargs["overlay_id"])}


urlpatterns = [
    path("", Overlays.as_view(), name="index"),
    path("<str:overlay_id>/", Detail.as_view(), name="detail"),
]
