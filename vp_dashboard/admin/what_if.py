# SPDX-License-Identifier: Apache-2.0
"""What a server or a flavor would meet on each host."""

from typing import Any

from django.urls import path
from django.utils.translation import gettext_lazy as _

from vp_client import host_formatters
from vp_client.client import Client
from vp_dashboard.views import VpView


class WhatIf(VpView):
    template_name = "vp_dashboard/admin/what_if.html"
    page_title = _("What-if")

    def read(self, client: Client) -> dict[str, Any]:
        """One request for each thousand hosts; none until something is asked."""
        chosen = self.chosen("server_id", "flavor")
        hosts = None
        if "server_id" in chosen:
            hosts = client.what_if_server(chosen["server_id"])
        elif "flavor" in chosen:
            hosts = client.what_if_flavor(chosen["flavor"])
        ranked = None if hosts is None else sorted(hosts, key=host_formatters.what_if_rank)
        return {"hosts": ranked, "chosen": chosen}


urlpatterns = [path("", WhatIf.as_view(), name="index")]
