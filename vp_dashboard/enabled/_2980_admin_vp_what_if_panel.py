# SPDX-License-Identifier: Apache-2.0
PANEL = "vp_what_if"
PANEL_DASHBOARD = "admin"
PANEL_GROUP = "performance_isolation"
ADD_PANEL = "vp_dashboard.admin.panels.WhatIf"
