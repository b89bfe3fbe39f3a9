# SPDX-License-Identifier: Apache-2.0
"""More of `[vp_scheduler]`: what the cluster does for a host that has nothing left.

A module of its own, since the filter and the weigher, which read that group too, need none of it.
"""

from oslo_config import cfg

from nova_vp.conf import scheduler
from nova_vp.conf.common import LONGEST_S
from nova_vp.core.types.policy import Mode

OPTS = [
    cfg.StrOpt(
        "escalation_mode",
        default=Mode.OBSERVE.value,
        choices=[
            (Mode.OBSERVE.value, "record whom it would have migrated, and why"),
            (Mode.ADVISE.value, "propose; migrate what `vp-manage escalation accept` names"),
            (Mode.ENFORCE.value, "migrate"),
        ],
        help="What vp-scheduler may do when a host has nothing left that helps a guest. A host "
        "whose agent is in a weaker mode is treated by that one. All but observe need [cloud].",
    ),
    cfg.IntOpt(
        "escalation_running",
        default=8,
        min=0,
        help="Migrations for escalations that may run in the whole cloud at the same time.",
    ),
    cfg.IntOpt(
        "escalation_running_per_host",
        default=1,
        min=0,
        help="The same for those that leave or reach one host. Nova itself lets one leave at a "
        "time at its default.",
    ),
    cfg.IntOpt(
        "escalation_per_host_hour",
        default=4,
        min=0,
        help="Migrations for escalations that may leave one host in an hour: a host that needs "
        "more is too full, which moving guests around does not mend.",
    ),
    cfg.IntOpt(
        "escalation_per_vp_day",
        default=3,
        min=0,
        help="Migrations for escalations of one guest in a day.",
    ),
    cfg.FloatOpt(
        "escalation_hold_s",
        default=3600.0,
        min=0.0,
        max=LONGEST_S,
        help="A guest that was to be migrated, whether it worked or not, is not migrated again "
        "for this long. So it cannot go back to where it came from either, and a guest that no "
        "host took is not tried again.",
    ),
    cfg.FloatOpt(
        "escalation_wait_s",
        default=900.0,
        min=0.0,
        max=LONGEST_S,
        help="An escalation that the budgets hold up for longer is refused: what its agent had "
        "measured is too old by then.",
    ),
    cfg.FloatOpt(
        "escalation_least_relief_ratio",
        default=0.05,
        min=0.0,
        max=1.0,
        help="Least share of its undisturbed performance that the victim must regain.",
    ),
    cfg.FloatOpt(
        "escalation_enough_ratio",
        default=0.75,
        min=0.0,
        max=1.0,
        help="Share of what the victim has lost that must come back, unless less than "
        "[policy] strict_max_hurt_ratio would be missing then.",
    ),
    cfg.FloatOpt(
        "escalation_payback_s",
        default=3600.0,
        min=0.0,
        max=LONGEST_S,
        help="Time within which a migration must have gained more than it costs: a guest that is "
        "copied is slowed, and arrives with cold caches.",
    ),
    cfg.FloatOpt(
        "escalation_bandwidth_mib_per_s",
        default=500.0,
        min=0.1,
        help="How fast memory is copied between hosts, for the time that a migration is expected "
        "to take. 500 is half of what a 10 Gb/s network does.",
    ),
    cfg.FloatOpt(
        "escalation_timeout_s_per_gib",
        default=200.0,
        min=1.0,
        max=LONGEST_S,
        help="A migration that takes longer, per GiB of the guest's memory, is aborted through "
        "Nova. Nova's own limit is 800 s at its default.",
    ),
    cfg.FloatOpt(
        "escalation_least_timeout_s",
        default=300.0,
        min=1.0,
        max=LONGEST_S,
        help="The same for small guests: no migration is aborted before this time.",
    ),
    cfg.FloatOpt(
        "escalation_lease_s",
        default=60.0,
        min=0.5,
        max=LONGEST_S,
        help="A vp-scheduler that has not written an escalation it works on for this long is taken "
        "for dead, and another goes on with it. Twice [cloud] timeout or more.",
    ),
    cfg.FloatOpt(
        "escalation_settle_s",
        default=30.0,
        min=0.1,
        max=LONGEST_S,
        help="When it is not known whether Nova has heard a request (an error 503, a lost "
        "connection), how long to look for its traces before it is asked again.",
    ),
    cfg.FloatOpt(
        "escalation_poll_s",
        default=2.0,
        min=0.1,
        max=LONGEST_S,
        help="How often the ledger is looked through for work and a running migration is asked "
        "after.",
    ),
    cfg.FloatOpt(
        "escalation_host_down_s",
        default=180.0,
        min=0.0,
        max=LONGEST_S,
        help="When Nova reports the source host of a running migration down for this long, the "
        "migration is given up: only the host itself could tell how it ended.",
    ),
]
for _option in OPTS:
    # By those two a worker and those that might take over from it judge each other as they began.
    _option.mutable = _option.name not in ("escalation_lease_s", "escalation_poll_s")


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=scheduler.GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [(scheduler.GROUP, OPTS)]
