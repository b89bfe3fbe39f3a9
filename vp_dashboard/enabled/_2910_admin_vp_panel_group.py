# SPDX-License-Identifier: Apache-2.0
from django.utils.translation import gettext_lazy as _

PANEL_GROUP = "performance_isolation"
PANEL_GROUP_NAME = _("Performance isolation")
PANEL_GROUP_DASHBOARD = "admin"
ADD_INSTALLED_APPS = ["vp_dashboard"]
