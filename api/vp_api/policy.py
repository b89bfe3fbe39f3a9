# SPDX-License-Identifier: Apache-2.0
"""oslo.policy behind two questions: is this allowed, and refuse it if it is not.

The rules themselves are tables in `policies/`, one file per resource.
"""

from collections.abc import Mapping
from typing import Any

from oslo_config import cfg
from oslo_context.context import RequestContext
from oslo_policy import policy

from vp_api import policies
from vp_api.errors import ApiError, Code


def make_enforcer(conf: cfg.ConfigOpts) -> policy.Enforcer:
    enforcer = policy.Enforcer(conf)
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

    def require(self, context: RequestContext, rule: str) -> None:
        """Raises ApiError: the caller may not."""
        if not self.allows(context, rule):
            raise ApiError(
                Code.FORBIDDEN,
                f"The policy {rule} does not name any of your roles in this project. Use a "
                "project-scoped token of an operator, or ask the operator to change the policy.",
            )
