# SPDX-License-Identifier: Apache-2.0
"""The tab *Performance* of Nova's instance details, for projects and administrators."""

from typing import Any

from django.utils.translation import gettext_lazy as _
from horizon import tabs

from vp_client.errors import VpError
from vp_dashboard import api, policies, server_page
from vp_dashboard.span import ASKED


class PerformanceTab(tabs.Tab):
    name = _("Performance")
    slug = "vp_performance"
    template_name = "vp_dashboard/_tab.html"
    preload = False

    def allowed(self, request: Any) -> bool:
        return api.is_registered(request) and policies.allows(request, policies.OWN_SERVERS)

    def get_context_data(self, request: Any, **kwargs: Any) -> dict[str, Any]:
        server_id = self.tab_group.kwargs["instance_id"]
        asked = {name: request.GET.get(name, "") for name in ASKED}
        try:
            page = server_page.read_own(request, api.client_of(request), server_id, asked)
        except VpError as exc:
            return {"problem": api.problem(exc)}
        tab_id = self.get_id()
        return {**page, "request": request, "page_extra": f"&tab={tab_id}", "tab_id": tab_id}
