# SPDX-License-Identifier: Apache-2.0
"""One class for each entry of the menu; the module that it names has its pages."""

from typing import ClassVar

from django.utils.translation import gettext_lazy as _

from vp_dashboard import policies
from vp_dashboard.panels import VpPanel


class Hosts(VpPanel):
    name = _("Hosts")
    slug = "vp_hosts"
    urls = "hosts"
    policy_rules: ClassVar = (policies.rule(policies.HOSTS),)


class Servers(VpPanel):
    name = _("Servers")
    slug = "vp_servers"
    urls = "servers"
    policy_rules: ClassVar = (policies.rule(policies.SERVERS),)


class Actions(VpPanel):
    name = _("Actions")
    slug = "vp_actions"
    urls = "actions"
    policy_rules: ClassVar = (policies.rule(policies.ACTIONS),)


class Proposals(VpPanel):
    name = _("Proposals")
    slug = "vp_proposals"
    urls = "proposals"
    policy_rules: ClassVar = (policies.rule(policies.ACTIONS),)


class Escalations(VpPanel):
    name = _("Escalations")
    slug = "vp_escalations"
    urls = "escalations"
    policy_rules: ClassVar = (policies.rule(policies.ESCALATIONS),)


class Overlays(VpPanel):
    name = _("Overlays")
    slug = "vp_overlays"
    urls = "overlays"
    policy_rules: ClassVar = (policies.rule(policies.OVERLAYS),)


class Usage(VpPanel):
    name = _("Usage")
    slug = "vp_usage"
    urls = "usage"
    policy_rules: ClassVar = (policies.rule(policies.USAGE),)


class WhatIf(VpPanel):
    name = _("What-if")
    slug = "vp_what_if"
    urls = "what_if"
    policy_rules: ClassVar = (policies.rule(policies.WHAT_IF),)


class Modes(VpPanel):
    name = _("Modes")
    slug = "vp_modes"
    urls = "modes"
    policy_rules: ClassVar = (policies.rule(policies.MODES),)
