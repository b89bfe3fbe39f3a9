# SPDX-License-Identifier: Apache-2.0
PANEL = "vp_performance"
PANEL_DASHBOARD = "project"
PANEL_GROUP = "compute"
ADD_PANEL = "vp_dashboard.project.panels.Performance"
EXTRA_TABS = {
    "openstack_dashboard.dashboards.project.instances.tabs.InstanceDetailTabs": (
        (60, "vp_dashboard.tabs.PerformanceTab"),
    ),
    "openstack_dashboard.dashboards.admin.instances.tabs.AdminInstanceDetailTabs": (
        (60, "vp_dashboard.tabs.PerformanceTab"),
    ),
}
