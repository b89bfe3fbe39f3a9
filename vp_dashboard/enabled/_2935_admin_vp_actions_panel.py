# SPDX-License-Identifier: Apache-2.0
PANEL = "vp_actions"
PANEL_DASHBOARD = "admin"
PANEL_GROUP = "performance_isolation"
ADD_PANEL = "vp_dashboard.admin.panels.Actions"
