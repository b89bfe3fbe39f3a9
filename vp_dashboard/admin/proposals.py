# SPDX-License-Identifier: Apache-2.0
"""What agents in mode advise propose, and an operator's word on it."""

from typing import Any

from django.http import HttpResponseRedirect
from django.urls import path, reverse
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _
from horizon import messages

from nova_vp.action_results import PROPOSED
from nova_vp.escalation_status import Status
from vp_client.client import Client
from vp_client.errors import VpError
from vp_dashboard import api, policies, withdrawn
from vp_dashboard.views import ROWS, VpView

MOST_REASON = 255
"""Letters that vp-api takes."""


class Proposals(VpView):
    template_name = "vp_dashboard/admin/proposals.html"
    page_title = _("Proposals")

    def read(self, client: Client) -> dict[str, Any]:
        """Two requests: migrations wait in another list. Where proposals wait one more for each
        thousand hosts, which says when they reported last."""
        chosen = self.chosen("host", "server_id", "marker")
        found = self.listed(client, "actions", chosen, result=PROPOSED)
        hosts = {host["name"]: host for host in (client.list_hosts() if found["rows"] else ())}
        return {
            **found,
            "proposals": [
                {**one, "key": f"{one['id']}/{one['host']}", "report": hosts.get(one["host"])}
                for one in found["rows"]
            ],
            "escalations": self._escalations(client, chosen.get("host")),
            "chosen": chosen,
            "may_accept": policies.allows(self.request, policies.ACCEPT_ACTION),
            "may_reject": policies.allows(self.request, policies.REJECT_ACTION),
        }

    def _escalations(self, client: Client, host: str | None) -> list[dict[str, Any]] | None:
        """Those that wait for an operator. None: the user may not see them."""
        if not policies.allows(self.request, policies.ESCALATIONS):
            return None
        of_host = {"host": host} if host else {}
        return client.page("escalations", ROWS, status=Status.PROPOSED.value, **of_host)[0]

    def post(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponseRedirect:
        """Accepts or rejects those that are ticked; of each its outcome is told."""
        client = api.client_of(request)
        is_rejected, reason = "reject" in request.POST, request.POST.get("reason", "")[:MOST_REASON]
        said = (
            _t("%(id)s is rejected on %(host)s.")
            if is_rejected
            else _t("%(id)s is accepted: %(host)s applies it within some seconds.")
        )
        ticked = request.POST.getlist("action")
        if not ticked:
            messages.warning(request, _t("Nothing was done: no proposal was ticked."))
        for key in ticked:
            action_id, _slash, host = key.partition("/")
            try:
                if is_rejected:
                    client.reject_action(action_id, host, reason)
                else:
                    client.accept_action(action_id, host)
            except VpError as exc:
                why = withdrawn.why_refused(client, action_id, host, exc)
                messages.error(request, f"{action_id}: {why}")
            else:
                told = {"id": action_id, "host": host}
                messages.success(request, said % told)
        return HttpResponseRedirect(reverse("horizon:admin:vp_proposals:index"))


urlpatterns = [path("", Proposals.as_view(), name="index")]
