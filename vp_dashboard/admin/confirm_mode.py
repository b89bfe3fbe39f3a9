# SPDX-License-Identifier: Apache-2.0
"""Setting the mode of the cloud, a host aggregate, a host or a server. The question before it says
what is set now and what holds then."""

from typing import Any

from django.http import HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from horizon import messages
from horizon.views import HorizonTemplateView

from nova_vp.core.types.mode_levels import ModeLevel
from nova_vp.core.types.policy import Mode
from vp_client.client import Client
from vp_client.errors import VpError
from vp_dashboard import api, mode_change, nova_names

MODES = [mode.value for mode in Mode]
UNSET = "unset"
"""Chosen instead of a mode: none is set any more."""
SET_BY = {
    ModeLevel.CLOUD.value: lambda client, name, mode: client.set_cloud_mode(mode),
    ModeLevel.AGGREGATE.value: lambda client, name, mode: client.set_aggregate_mode(name, mode),
    ModeLevel.HOST.value: lambda client, name, mode: client.set_mode(name, mode),
    ModeLevel.SERVER.value: lambda client, name, mode: client.change_vp(name, mode=mode),
}
"""By level. Mode None: none is set there."""


class Confirm(HorizonTemplateView):
    template_name = "vp_dashboard/admin/confirm_mode.html"
    page_title = _("Set a mode")

    def get(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        """What cannot be set leads back to the page where it was chosen."""
        try:
            found = self._read(api.client_of(request))
        except VpError as exc:
            messages.error(request, api.problem(exc))
            return _to_modes()
        return self.render_to_response(self.get_context_data(**found))

    def post(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            asked = _asked(request.POST)
            SET_BY[asked["level"]](api.client_of(request), asked["name"], _mode_of(asked))
        except VpError as exc:
            messages.error(request, api.problem(exc))
        else:
            messages.success(request, _t("The mode is set. Hosts follow with their next reports."))
        return _to_modes()

    def _read(self, client: Client) -> dict[str, Any]:
        """One request of vp-api; of a server two, and those that find it by name."""
        asked = _asked(self.request.GET)
        told = {"asked": asked, "mode": _mode_of(asked)}
        if asked["level"] == ModeLevel.HOST.value:
            return told | _of_host(client.show_host(asked["name"]), _mode_of(asked))
        if asked["level"] == ModeLevel.SERVER.value:
            return told | _of_server(client, asked)
        return told | _stored(client, asked) | {"is_no_aggregate": self._is_no_aggregate(asked)}

    def _is_no_aggregate(self, asked: dict[str, str]) -> bool:
        """As far as Nova can be asked."""
        if asked["level"] != ModeLevel.AGGREGATE.value:
            return False
        known = nova_names.aggregates(self.request)
        return known is not None and asked["name"] not in known


def _to_modes() -> HttpResponseRedirect:
    return HttpResponseRedirect(reverse("horizon:admin:vp_modes:index"))


def _asked(fields: Any) -> dict[str, str]:
    """Raises VpError: it is not clear what is asked for."""
    asked = {field: fields.get(field, "").strip() for field in ("level", "name", "mode")}
    is_named = asked["level"] == ModeLevel.CLOUD.value or asked["name"]
    if asked["level"] not in SET_BY or asked["mode"] not in (*MODES, UNSET) or not is_named:
        raise VpError(_t("Choose a level and a mode, and name the aggregate, host or server."))
    return asked


def _mode_of(asked: dict[str, str]) -> str | None:
    return None if asked["mode"] == UNSET else asked["mode"]


def _stored(client: Client, asked: dict[str, str]) -> dict[str, Any]:
    """What is set for the cloud or the aggregate now."""
    found = [
        one
        for one in client.list_modes()
        if one["level"] == asked["level"] and one["name"] in ("", asked["name"])
    ]
    stored = found[0] if found else None
    return {"is_known": True, "old": stored and stored["mode"], "stored": stored}


def _of_host(host: dict[str, Any], mode: str | None) -> dict[str, Any]:
    levels = host["mode_levels"]
    return {
        "is_known": host["mode_source"] is not None,
        "old": mode_change.set_on(ModeLevel.HOST, levels),
        "now": {"mode": host["mode"], "source": host["mode_source"]},
        "then": mode_change.then(levels, ModeLevel.HOST, mode),
    }


def _of_server(client: Client, asked: dict[str, str]) -> dict[str, Any]:
    """What is confirmed is asked for by the id, whatever name was typed."""
    vp = client.show_vp(asked["name"])
    levels = client.show_host(vp["host"])["mode_levels"]
    return {
        "is_known": True,
        "asked": {**asked, "name": vp["server_id"]},
        "vp": vp,
        "old": vp["overrides"]["mode"],
        "now": vp["mode"],
        "then": mode_change.then(levels, ModeLevel.SERVER, _mode_of(asked)),
    }
