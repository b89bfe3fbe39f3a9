# SPDX-License-Identifier: Apache-2.0
"""Hosts: all of them as a heat map, and one in detail."""

from typing import Any

from django.urls import path, reverse
from django.utils.translation import gettext_lazy as _
from django.views.generic.base import RedirectView

from nova_vp.core.types.policy import Mode
from vp_client.client import Client
from vp_dashboard import heat
from vp_dashboard.views import ROWS, VpView

SORTS = {
    "hurt_count:desc": _("most degraded servers first"),
    "vps_count:desc": _("most servers first"),
    "name:asc": _("by name"),
}
FIRST_SORT = "hurt_count:desc"


class HeatMap(VpView):
    template_name = "vp_dashboard/admin/hosts.html"
    page_title = _("Hosts")

    def read(self, client: Client) -> dict[str, Any]:
        """One request of vp-api."""
        chosen = {"sort": FIRST_SORT, **self.chosen("mode", "is_stale", "sort", "marker")}
        hosts, marker = client.page("hosts", ROWS, heat=True, **chosen)
        return {
            "rows": heat.rows(hosts),
            "columns": heat.columns(hosts),
            "levels": [level.value for level in heat.Level],
            "modes": [mode.value for mode in Mode],
            "sorts": SORTS,
            "chosen": chosen,
            "next_page": self.next_page(marker),
        }


class Find(RedirectView):
    """Of a name that was typed to the page of that host."""

    def get_redirect_url(self, *args: Any, **kwargs: Any) -> str:
        host = self.request.GET.get("host", "").strip()
        name, arguments = ("detail", (host,)) if host else ("index", ())
        return str(reverse(f"horizon:admin:vp_hosts:{name}", args=arguments))


class Detail(VpView):
    template_name = "vp_dashboard/admin/host.html"
    page_title = _("Host {{ name }}")

    def read(self, client: Client) -> dict[str, Any]:
        """One request of vp-api."""
        host = client.show_host(self.kwargs["host"])
        return {"host": host, "by_domain": _by_domain(host)}

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(name=self.kwargs["host"], **kwargs)


def _by_domain(host: dict[str, Any]) -> list[dict[str, Any]]:
    """Its LLC domains with their NUMA nodes, and the servers in each."""
    nodes = {node["node"]: node for node in host["nodes"]}
    return [
        {
            **domain,
            "node": cell["id"],
            "node_load": nodes.get(cell["id"]),
            "vps": [vp for vp in host["vps"] if domain["id"] in vp["domains"]],
        }
        for cell in host["cells"]
        for domain in cell["domains"]
    ]


urlpatterns = [
    path("", HeatMap.as_view(), name="index"),
    path("find", Find.as_view(), name="find"),
    path("<path:host>/", Detail.as_view(), name="detail"),
]
