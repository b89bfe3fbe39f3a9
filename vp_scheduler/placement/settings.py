# SPDX-License-Identifier: Apache-2.0
"""Our options inside Nova's processes, where nobody checks a configuration at start.

A value that oslo.config refuses, or that nobody can calculate with, is told once as an error and
replaced by the default: nova-scheduler goes on.
"""

import logging
from dataclasses import dataclass
from typing import Any

from oslo_config import cfg

from nova_vp import controllers
from nova_vp.conf import controller_settings, fault_of, policy, scheduler
from nova_vp.conf.scheduler import StaleHosts
from nova_vp.core.controllers.base import Controller
from nova_vp.core.types.asked import Asked

LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Settings:
    """What requests are judged by."""

    good_enough_ratio: float
    refuses_unknown: bool
    llc_permits_per_domain: float
    """0: any number may be booked."""
    multiplier: float
    stale_after_s: float
    known_hosts: tuple[str, ...]


class SettingsReader:
    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf
        self._told: set[str] = set()

    def read(self) -> Settings:
        ours = scheduler.GROUP, scheduler.OPTS
        policies = controller_settings.POLICY, policy.POLICY_OPTS
        return Settings(
            good_enough_ratio=self._value("strict_max_hurt_ratio", *policies),
            refuses_unknown=self._value("stale_hosts", *ours) == StaleHosts.REFUSE.value,
            llc_permits_per_domain=self._value("llc_permits_per_domain", *ours),
            multiplier=self._value("interference_weight_multiplier", *ours),
            stale_after_s=self._value("stale_after_s", *ours),
            known_hosts=tuple(self._value("known_hosts", *ours)),
        )

    def llc_permit(self, asked: Asked) -> float:
        """What a server of such a flavor books, by whichever controller's key."""
        if not asked.keys:
            return 0.0
        known = controllers.installed().values()
        return sum(one.llc_permit(asked, self._settings_of(one)) for one in known)

    def _settings_of(self, one: Controller) -> Any:
        ours = controller_settings.group_of(one.name), controller_settings.settings_opts(one)
        return controller_settings.settings_from(one, lambda name: self._value(name, *ours))

    def _value(self, name: str, group: str, options: list[cfg.Opt]) -> Any:
        option = next(option for option in options if option.dest == name)
        fault = fault_of(self._conf, group, option)
        if fault is None:
            return self._conf[group][name]
        if fault not in self._told:
            self._told.add(fault)
            LOG.error("%s. Until nova-scheduler is restarted with it, the default holds", fault)
        return option.default
