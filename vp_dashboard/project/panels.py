# SPDX-License-Identifier: Apache-2.0
"""The entry of the menu; the module that it names has its pages."""

from typing import ClassVar

from django.utils.translation import gettext_lazy as _

from vp_dashboard import policies
from vp_dashboard.panels import VpPanel


class Performance(VpPanel):
    name = _("Performance")
    slug = "vp_performance"
    urls = "performance"
    policy_rules: ClassVar = (policies.rule(policies.OWN_SERVERS),)
