# SPDX-License-Identifier: Apache-2.0
"""What agents asked the cluster for: all of it, and one with candidates and attempts."""

from typing import Any

from django.http import HttpResponseRedirect
from django.urls import path, reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from horizon import messages

from nova_vp.escalation_status import Status
from vp_client.client import Client
from vp_client.errors import VpError
from vp_dashboard import api, keystone_names, policies
from vp_dashboard.views import VpList, VpView


class Escalations(VpList):
    template_name = "vp_dashboard/admin/escalations.html"
    page_title = _("Escalations")
    resource = "escalations"
    filters = ("host", "status")

    def read(self, client: Client) -> dict[str, Any]:
        told = super().read(client)
        rows = keystone_names.with_users(self.request, told["rows"])
        return {**told, "rows": rows, "statuses": [status.value for status in Status]}


class Detail(VpView):
    template_name = "vp_dashboard/admin/escalation.html"
    page_title = _("Escalation {{ escalation_id }}")

    def read(self, client: Client) -> dict[str, Any]:
        """One request."""
        [told] = keystone_names.with_users(
            self.request, [client.show_escalation(self.kwargs["escalation_id"])]
        )
        may_accept = policies.allows(self.request, policies.ACCEPT_ESCALATION)
        is_proposed = told["status"] == Status.PROPOSED.value
        return {"escalation": told, "may_accept": may_accept and is_proposed}

    def post(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseRedirect:
        escalation_id = self.kwargs["escalation_id"]
        try:
            api.client_of(request).accept_escalation(escalation_id)
        except VpError as exc:
            messages.error(request, api.problem(exc))
        else:
            messages.success(request, _t("Accepted. The cluster service starts the migration."))
        return HttpResponseRedirect(
            reverse("horizon:admin:vp_escalations:detail", args=(escalation_id,))
        )


urlpatterns = [
    path("", Escalations.as_view(), name="index"),
    path("<str:escalation_id>/", Detail.as_view(), name="detail"),
]
