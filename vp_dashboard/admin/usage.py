# SPDX-License-Identifier: Apache-2.0
"""What servers with a pollution permit are billed for."""

from django.urls import path
from django.utils.translation import gettext_lazy as _

from vp_dashboard.views import VpList


class Usage(VpList):
    template_name = "vp_dashboard/admin/usage.html"
    page_title = _("Usage")
    resource = "usage"
    filters = ("project_id", "server_id", "start", "end")


urlpatterns = [path("", Usage.as_view(), name="index")]
