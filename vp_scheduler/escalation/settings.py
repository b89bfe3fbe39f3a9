# SPDX-License-Identifier: Apache-2.0
"""The options of escalation, read once into frozen values. Nothing else reads them."""

from dataclasses import dataclass
from datetime import timedelta

from oslo_config import cfg

from nova_vp.core.types.policy import Mode
from nova_vp.db.escalations import Budgets
from vp_scheduler.escalation.select import AcceptanceLimits

KIB_PER_MIB, KIB_PER_GIB = 1 << 10, 1 << 20
HOLD_MARGIN_S = 600.0
"""A prepared guest is left alone for its timeout and this: an abort takes its time too."""


@dataclass(frozen=True, slots=True)
class Settings:
    mode: Mode
    budgets: Budgets
    terms: AcceptanceLimits
    wait_s: float
    lease_s: float
    settle_s: float
    poll_s: float
    host_down_s: float
    least_timeout_s: float
    timeout_s_per_gib: float

    def timeout_s(self, memory_kib: int) -> int:
        return int(max(self.least_timeout_s, self.timeout_s_per_gib * memory_kib / KIB_PER_GIB))


def read(conf: cfg.ConfigOpts) -> Settings:
    group = conf.vp_scheduler
    return Settings(
        mode=Mode(group.escalation_mode),
        budgets=Budgets(
            running=group.escalation_running,
            running_per_host=group.escalation_running_per_host,
            per_host_hour=group.escalation_per_host_hour,
            per_vp_day=group.escalation_per_vp_day,
            per_victim_day=group.escalation_per_victim_day,
            per_project_day=group.escalation_per_project_day,
            hold=timedelta(seconds=group.escalation_hold_s),
        ),
        terms=AcceptanceLimits(
            least_relief_ratio=group.escalation_least_relief_ratio,
            enough_ratio=group.escalation_enough_ratio,
            good_enough_loss_ratio=conf.policy.strict_max_hurt_ratio,
            payback_s=group.escalation_payback_s,
            bandwidth_kib_per_s=group.escalation_bandwidth_mib_per_s * KIB_PER_MIB,
        ),
        wait_s=group.escalation_wait_s,
        lease_s=group.escalation_lease_s,
        settle_s=group.escalation_settle_s,
        poll_s=group.escalation_poll_s,
        host_down_s=group.escalation_host_down_s,
        least_timeout_s=group.escalation_least_timeout_s,
        timeout_s_per_gib=group.escalation_timeout_s_per_gib,
    )
