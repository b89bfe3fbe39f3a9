# SPDX-License-Identifier: Apache-2.0
"""What is in force, and how well the service is: numbers behind decisions, rules, checks."""

from typing import Any

from oslo_config import cfg

from nova_vp.conf import escalation, policy
from nova_vp.core.types.policy import Mode
from nova_vp.db.filters import HostFilter
from nova_vp.db.report_store import ERRORS
from nova_vp.service import health
from nova_vp.service.health import Check, Status
from vp_api.operation import Answer, Call
from vp_api.vp_report import fresh_since


def show_policies(call: Call) -> Answer:
    """Options as vp-api's own files have them, which agents share unless their hosts' differ."""
    browser = call.services.stored.browser
    modes = {mode.value: browser.count_hosts(HostFilter(mode=mode.value)) for mode in Mode}
    groups = (*policy.list_opts(), *escalation.list_opts())
    return {
        "policies": {
            "modes": modes,
            "options": [
                _option(call.services.conf, group, option)
                for group, options in groups
                for option in options
                if not option.secret
            ],
            "rules": call.services.policy.in_force(),
        }
    }


def _option(conf: cfg.ConfigOpts, group: str, option: cfg.Opt) -> dict[str, Any]:
    is_text = isinstance(option.default, str)
    return {
        "group": group,
        "name": option.dest,
        "value": conf[group][option.dest],
        "default": option.type(option.default) if is_text else option.default,
        "help": option.help,
    }


def show_health(call: Call) -> Answer:
    """Of the service as a whole, as this vp-api sees it; cheap, and without secrets."""
    checks = _checks(call)
    seen = health.Health("vp-api", "the service as vp-api sees it", tuple(checks))
    told = {check.name: {"status": check.status.value, "detail": check.output} for check in checks}
    return {"health": {"status": seen.status.value, "checks": told}}


def _checks(call: Call) -> list[Check]:
    services = call.services
    checks = [health.bus_check(services.is_bus_reachable())]
    fresh = fresh_since(services.clock())
    try:
        silent = services.stored.browser.count_hosts(HostFilter(not_heard_since=fresh))
        heard = services.stored.browser.count_hosts(HostFilter(heard_since=fresh))
    except ERRORS:
        return [*checks, health.database_check(False)]
    return [*checks, health.database_check(True), _hosts(heard, silent)]


def _hosts(heard: int, silent: int) -> Check:
    if heard and not silent:
        return Check("hosts", "reports", Status.PASS, f"{heard} hosts report")
    if not heard and not silent:
        told = (
            "no host has ever reported: start vp-agent on a host, and vp-scheduler on a controller"
        )
    elif not heard:
        told = f"none of {silent} hosts reports: check vp-scheduler and the message bus"
    else:
        told = (
            f"{silent} of {heard + silent} hosts do not report: list them with `openstack vp host "
            "list --stale`; remove decommissioned ones with `vp-manage host forget`"
        )
    return Check("hosts", "reports", Status.WARN, told)
