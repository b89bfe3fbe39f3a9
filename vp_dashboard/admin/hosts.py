# SPDX-License-Identifier: Apache-2.0
"""Hosts: all of them as a heat map, and one in detail."""

from datetime import UTC, datetime
from functools import partial
from typing import Any

from django.urls import path, reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from django.views.generic.base import RedirectView

from nova_vp.core.types.policy import Mode
from vp_client import formatters
from vp_client.client import Client
from vp_dashboard import comparison, heat, host_timeline, keystone_names, timeline
from vp_dashboard.span import ASKED, SPANS, earlier_end, span_of
from vp_dashboard.timeline import Series
from vp_dashboard.views import ROWS, VpView

SORTS = {
    "hurt_count:desc": _("most degraded servers first"),
    "vps_count:desc": _("most servers first"),
    "name:asc": _("by name"),
}
LAST_ACTIONS = 100
SERIES = (
    Series(_("Worst performance in %"), host_timeline.worst_performance, most=100.0),
    Series(_("Degraded servers"), host_timeline.degraded),
    Series(_("Servers"), lambda row: len(row["vps"])),
    Series(_("CPU waiting in %, worst"), host_timeline.worst_waiting),
    Series(_("LLC misses/s"), host_timeline.misses_per_s),
)
"""Of the timeline of a host."""
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


class Timeline(VpView):
    template_name = "vp_dashboard/admin/host_timeline.html"
    page_title = _("Host {{ name }} over time")

    def read(self, client: Client) -> dict[str, Any]:
        """Four requests of vp-api."""
        name, span = self.kwargs["host"], span_of(self.chosen(*ASKED))
        history = client.host_history(name, None, every=str(span.every_min), **span.query)
        actions = client.list_actions(LAST_ACTIONS, host=name, **span.query)
        names = host_timeline.names_of(client.show_host(name), actions)
        moves = [(one.at, _move(one)) for one in host_timeline.moves(history, names)]
        done = filter(comparison.was_done, actions)
        now = datetime.now(UTC)
        told = host_timeline.done(actions, history if span.is_by_minute else None, now)
        events = [*((one["at"], formatters.deed(one)) for one in done), *moves]
        return {
            "chart": timeline.chart(
                history, SERIES, events, span.every_min, now, span.closer_hours
            ),
            "done": keystone_names.with_users(self.request, told),
            "moves": moves,
            "minutes": host_timeline.minutes(history, names),
            "span": span,
            "spans": list(SPANS),
            "earlier": earlier_end(history, span, partial(client.host_history, name, 1)),
        }

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        return super().get_context_data(name=self.kwargs["host"], **kwargs)


def _move(one: host_timeline.Move) -> str:
    told = {"server": one.server}
    text: str = _t("%(server)s came") if one.has_come else _t("%(server)s left")
    return text % told


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
    path("<path:host>/timeline/", Timeline.as_view(), name="timeline"),
    path("<path:host>/", Detail.as_view(), name="detail"),
]
