# SPDX-License-Identifier: Apache-2.0
"""Flavors that the project can order, each with its `vp:` keys in words."""

from typing import Any, NamedTuple

from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from horizon import views

from nova_vp import flavor_specs
from vp_client.errors import VpError
from vp_dashboard import api, nova_flavors

ISOLATION = "vp:isolation"
ISOLATIONS = {
    "strict": _("isolated: only on hosts where neighbours are predicted to degrade it little"),
    "soft": _("preferably on hosts where neighbours are predicted to degrade it little"),
    "none": _("not isolated"),
}
VALUES = {
    ("vp:manage", "yes"): _("its host may place its vCPUs, cap its CPU and move its memory"),
    ("vp:manage", "no"): _("it is measured, but not changed"),
    ("vp:class", "latency-critical"): _("latency-critical: requests must be answered in time"),
    ("vp:class", "best-effort"): _("best effort: it gets the CPU that others leave"),
    ("vp:suspend", "yes"): _("it may be held to 1 ms of CPU in each second for some time"),
    ("vp:suspend", "no"): _("it is never suspended"),
    ("vp:llc_permit", "auto"): _("pollution permit: what the operator grants for its memory"),
}
"""Of keys with few values."""
KEYS = {
    "vp:group": _("it belongs to the application %(value)s"),
    "vp:priority": _("weight %(value)s when the needs of servers conflict; 1 is usual"),
    "vp:cpu_floor": _("a cap leaves it at least %(value)s %% of each vCPU"),
    "vp:expects": _("taken for %(value)s until it is measured"),
    "vp:latency_target_ms": _("it must answer within %(value)s ms"),
    "vp:latency_percentile": _("this holds for %(value)s %% of its requests"),
    "vp:max_load": _("it serves a load of up to %(value)s in time"),
    "vp:llc_permit": _("pollution permit: %(value)s cache misses per ms for each vCPU"),
    "vp:memory_split": _("its memory is split over NUMA nodes: %(value)s %%"),
}
"""Of keys with many."""


class Row(NamedTuple):
    name: str
    vcpus: int
    ram_mib: int
    isolation: Any
    is_isolated: bool
    words: list[Any]
    """Of its other keys."""


class Flavors(views.HorizonTemplateView):
    template_name = "vp_dashboard/project/flavors.html"
    page_title = _("Flavors")

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:
        """One request of Nova, none of vp-api."""
        context: dict[str, Any] = super().get_context_data(**kwargs)
        try:
            rows = [_row(one) for one in api.flavors(self.request)]
        except VpError as exc:
            return {**context, "problem": api.problem(exc)}
        has_isolated = any(row.is_isolated for row in rows)
        return {**context, "flavors": rows, "has_isolated": has_isolated}


def _row(flavor: Any) -> Row:
    specs = nova_flavors.extra_specs(flavor)
    asked = {key: value for key, value in specs.items() if key.startswith(flavor_specs.NAMESPACE)}
    try:
        found = flavor_specs.parse(asked).isolation.value
    except flavor_specs.InvalidFlavorSpec as exc:
        why = _t("its keys are not valid, so they are ignored: %(why)s") % {"why": exc}
        return Row(flavor.name, flavor.vcpus, flavor.ram, ISOLATIONS["none"], False, [why])
    words = [_words(key, value) for key, value in sorted(asked.items()) if key != ISOLATION]
    is_isolated = found == "strict"
    return Row(flavor.name, flavor.vcpus, flavor.ram, ISOLATIONS[found], is_isolated, words)


def _words(key: str, value: str) -> Any:
    """Of a key of a controller that is not in the tables here, as the controller describes it."""
    if (key, value) in VALUES:
        return VALUES[key, value]
    if key in KEYS:
        return KEYS[key] % {"value": value}
    description = flavor_specs.by_key()[key].description.replace("`", "")
    return f"{key}={value}: {description}"
