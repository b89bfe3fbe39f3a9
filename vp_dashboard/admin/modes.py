# SPDX-License-Identifier: Apache-2.0
"""Modes that are set for the cloud and for host aggregates, and the mode of each host with where it
comes from. Setting one is confirmed first: see `confirm_mode.py`."""

from typing import Any

from django.urls import path
from django.utils.translation import gettext_lazy as _

from nova_vp.core.types.mode_levels import ModeLevel
from vp_client.client import Client
from vp_dashboard import mode_change, nova_names, policies
from vp_dashboard.admin.confirm_mode import MODES, UNSET, Confirm
from vp_dashboard.views import ROWS, VpView

SOURCES = {
    ModeLevel.CLOUD.value: _("the cloud"),
    ModeLevel.AGGREGATE.value: _("a host aggregate"),
    ModeLevel.HOST.value: _("the host itself"),
    ModeLevel.DEFAULT.value: _("nowhere: no mode is set"),
}
"""Of the modes of hosts."""


class Modes(VpView):
    template_name = "vp_dashboard/admin/modes.html"
    page_title = _("Modes")

    def read(self, client: Client) -> dict[str, Any]:
        """Two requests, and one more for each further thousand hosts. Who may set a mode also has
        Nova asked for its aggregates, once."""
        chosen = self.chosen("mode", "source", "marker", "host")
        modes, hosts = client.list_modes(), client.list_hosts()
        may_set = policies.allows(self.request, policies.SET_MODES)
        found = mode_change.matching(hosts, chosen)
        rows, marker = mode_change.page(found, chosen.get("marker"), ROWS)
        return {
            "modes": modes,
            "hosts": hosts,
            "rows": rows,
            "found_count": len(found),
            "aggregates": self._aggregates(modes) if may_set else [],
            "chosen": chosen,
            "choices": MODES,
            "unset": UNSET,
            "sources": SOURCES,
            "may_set": may_set,
            "next_page": self.next_page(marker),
        }

    def _aggregates(self, modes: list[dict[str, Any]]) -> list[str]:
        """Of Nova, and those that have a mode."""
        known = nova_names.aggregates(self.request) or []
        return sorted({*known, *(one["name"] for one in modes if one["name"])})


urlpatterns = [
    path("", Modes.as_view(), name="index"),
    path("confirm", Confirm.as_view(), name="confirm"),
]
