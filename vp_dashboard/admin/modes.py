# SPDX-License-Identifier: Apache-2.0
"""Modes that are set for the cloud and for host aggregates; setting one is confirmed first."""

from typing import Any

from django.http import HttpResponseRedirect
from django.urls import path, reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from horizon import messages

from nova_vp.core.types.mode_levels import ModeLevel
from nova_vp.core.types.policy import Mode
from vp_client.client import Client
from vp_client.errors import VpError
from vp_dashboard import api, policies
from vp_dashboard.views import VpView

MODES = [mode.value for mode in Mode]
SET_BY = {
    ModeLevel.CLOUD.value: lambda client, name, mode: client.set_cloud_mode(mode),
    ModeLevel.AGGREGATE.value: lambda client, name, mode: client.set_aggregate_mode(name, mode),
    ModeLevel.HOST.value: lambda client, name, mode: client.set_mode(name, mode),
    ModeLevel.SERVER.value: lambda client, name, mode: client.change_vp(name, mode=mode),
}
"""By level. Mode None: none is set there."""


class Modes(VpView):
    template_name = "vp_dashboard/admin/modes.html"
    page_title = _("Modes")

    def read(self, client: Client) -> dict[str, Any]:
        """One request."""
        return {
            "modes": client.list_modes(),
            "choices": MODES,
            "levels": list(SET_BY),
            "may_set": policies.allows(self.request, policies.SET_MODES),
        }


class Confirm(VpView):
    """Says what would be set; sets it once that is confirmed."""

    template_name = "vp_dashboard/admin/confirm_mode.html"
    page_title = _("Set a mode")

    def read(self, client: Client) -> dict[str, Any]:
        """No request: nothing that is shown is vp-api's."""
        return {"asked": _asked(self.request.GET)}

    def post(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseRedirect:
        try:
            asked = _asked(request.POST)
            SET_BY[asked["level"]](api.client_of(request), asked["name"], asked["mode"] or None)
        except VpError as exc:
            messages.error(request, api.problem(exc))
        else:
            messages.success(request, _t("The mode is set. Hosts follow with their next reports."))
        return HttpResponseRedirect(reverse("horizon:admin:vp_modes:index"))


def _asked(fields: Any) -> dict[str, str]:
    """Raises VpError: it is not clear what is asked for."""
    asked = {field: fields.get(field, "").strip() for field in ("level", "name", "mode")}
    is_named = asked["level"] == ModeLevel.CLOUD.value or asked["name"]
    if asked["level"] not in SET_BY or asked["mode"] not in (*MODES, "") or not is_named:
        raise VpError(_t("Choose a level and a mode, and name the aggregate, host or server."))
    return asked


urlpatterns = [
    path("", Modes.as_view(), name="index"),
    path("confirm", Confirm.as_view(), name="confirm"),
]
