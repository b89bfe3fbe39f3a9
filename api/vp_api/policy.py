# SPDX-License-Identifier: Apache-2.0
"""oslo.policy behind two questions: is this allowed, and refuse it if it is not.

The rules themselves are tables in `policies/`, one file per resource.
"""

import re
import time
from collections.abc import Mapping
from typing import Any

from oslo_config import cfg
from oslo_context.context import RequestContext
from oslo_log import log as logging
from oslo_policy import policy

from vp_api import policies
from vp_api.errors import ApiError, Code

LOG = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
_ROLE = re.compile(r"\brole:([\w.-]+)")
_OPERATOR = "of an operator"
"""Whose token to use where a rule that was rewritten names no role itself."""


class _Enforcer(policy.Enforcer):
    """Looks whether the policy files changed every second, not with every question: to search
    folders for them takes longer than to answer it.

    oslo.policy drops what some files closed where another is no policy. Here all holds then.
    """

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__(conf)
        self._looked_s = -LOOK_EVERY_S

    def load_rules(self, force_reload: bool = False) -> None:
        now_s = time.monotonic()
        if force_reload or now_s - self._looked_s >= LOOK_EVERY_S:
            self._looked_s = now_s
            self._load(force_reload)

    def _load(self, force_reload: bool) -> None:
        rules, file_rules = self.rules, dict(self.file_rules)
        try:
            super().load_rules(force_reload)
        except Exception as exc:  # of whatever kind: the files may hold anything
            if not rules:
                raise  # we only start, and nothing is in force
            self.rules, self.file_rules = rules, file_rules
            LOG.error(
                "the policy files are not taken over, the former rules hold until they are "
                "corrected: %s",
                exc,
            )


def make_enforcer(conf: cfg.ConfigOpts) -> policy.Enforcer:
    enforcer = _Enforcer(conf)
    enforcer.register_defaults(policies.list_rules())
    return enforcer


def get_enforcer() -> policy.Enforcer:
    """For oslo.policy's command line tools (entry point oslo.policy.enforcer)."""
    conf = cfg.CONF
    conf([], project="nova-vp")
    return make_enforcer(conf)


class Policy:
    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._enforcer = make_enforcer(conf)
        self._enforcer.load_rules()

    def allows(
        self, context: RequestContext, rule: str, target: Mapping[str, Any] | None = None
    ) -> bool:
        return bool(self._enforcer.authorize(rule, dict(target or {}), context))

    def in_force(self) -> list[dict[str, Any]]:
        """Every rule as it is checked now, and whether that is its default."""
        defaults = self._enforcer.registered_rules
        return [
            {
                "name": name,
                "check": str(self._enforcer.rules[name]),
                "is_default": str(self._enforcer.rules[name]) == str(defaults[name].check),
            }
            for name in sorted(defaults)
        ]

    def require(
        self, context: RequestContext, rule: str, target: Mapping[str, Any] | None = None
    ) -> None:
        """Raises ApiError: the caller may not."""
        if not self.allows(context, rule, target):
            raise ApiError(
                Code.FORBIDDEN,
                f"The policy {rule} does not name any of your roles in this project. Use a "
                f"project-scoped token {self._of_whom(rule)}, or ask the operator to change the "
                "policy.",
            )

    def _of_whom(self, rule: str) -> str:
        named = dict.fromkeys(_ROLE.findall(str(self._enforcer.rules[rule])))
        return f"with one of the roles that it names ({', '.join(named)})" if named else _OPERATOR
