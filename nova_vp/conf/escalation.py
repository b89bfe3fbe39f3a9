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
            (Mode.OBSERVE.value, "record which server it would migrate, and why"),
            (Mode.ADVISE.value, "propose migrations, start the ones that an operator accepts"),
            (Mode.ENFORCE.value, "start migrations"),
        ],
        help="What vp-scheduler does when no action on a host helps a degraded server. If the "
        "agent of the host is in a stricter mode, that mode applies. `advise` and `enforce` need "
        "[cloud]. Start with the default, and read the recorded decisions before you allow "
        "migrations.",
    ),
    cfg.IntOpt(
        "escalation_running",
        default=8,
        min=0,
        help="Maximum number of migrations for escalations that run in the cloud at the same time.",
    ),
    cfg.IntOpt(
        "escalation_running_per_host",
        default=1,
        min=0,
        help="Maximum number of migrations for escalations that leave or reach one host at the "
        "same time. Hosts are counted as Nova names them. The default matches Nova, which by "
        "default runs one outgoing migration per host.",
    ),
    cfg.IntOpt(
        "escalation_per_host_hour",
        default=4,
        min=0,
        help="Maximum number of migrations for escalations that leave one host per hour. A host "
        "that needs more is overloaded; migrations do not solve that.",
    ),
    cfg.IntOpt(
        "escalation_per_vp_day",
        default=3,
        min=0,
        help="Maximum number of migrations for escalations per server and day.",
    ),
    cfg.IntOpt(
        "escalation_per_victim_day",
        default=6,
        min=0,
        help="Maximum number of migrations per day for the escalations of one degraded server, "
        "whichever servers are migrated. A guest controls its own counters, so it can act "
        "degraded.",
    ),
    cfg.IntOpt(
        "escalation_per_project_day",
        default=24,
        min=0,
        help="Maximum number of migrations per day for the escalations of all degraded servers "
        "of one project, whichever servers are migrated.",
    ),
    cfg.FloatOpt(
        "escalation_hold_s",
        default=3600.0,
        min=0.0,
        max=LONGEST_S,
        help="Seconds during which a server is not selected again after a migration for an "
        "escalation, successful or not. The server therefore does not move back and forth, and a "
        "server that no host accepts is not tried again at once.",
    ),
    cfg.FloatOpt(
        "escalation_wait_s",
        default=900.0,
        min=0.0,
        max=LONGEST_S,
        help="Seconds that an escalation may wait for the budgets, or for Nova to say where the "
        "servers are. After that it is rejected, because the measurements of the agent are too "
        "old.",
    ),
    cfg.FloatOpt(
        "escalation_least_relief_ratio",
        default=0.05,
        min=0.0,
        max=1.0,
        help="Least predicted gain for the victim, as a share of its undisturbed performance. A "
        "migration with a smaller gain is not started.",
    ),
    cfg.FloatOpt(
        "escalation_enough_ratio",
        default=0.75,
        min=0.0,
        max=1.0,
        help="Share of its lost performance that the victim must regain. A smaller share is "
        "enough if the remaining loss is below [policy] strict_max_hurt_ratio.",
    ),
    cfg.FloatOpt(
        "escalation_payback_s",
        default=3600.0,
        min=0.0,
        max=LONGEST_S,
        help="Seconds within which a migration must gain more performance than it costs. The "
        "migrated server is slower during the copy, and starts with cold caches on the new host.",
    ),
    cfg.FloatOpt(
        "escalation_bandwidth_mib_per_s",
        default=500.0,
        min=0.1,
        help="Expected copy rate between hosts, in MiB per second, from which the duration of a "
        "migration is predicted. The default is half of a 10 Gb/s network.",
    ),
    cfg.FloatOpt(
        "escalation_timeout_s_per_gib",
        default=200.0,
        min=1.0,
        max=LONGEST_S,
        help="Seconds per GiB of server memory after which a migration is aborted through Nova. "
        "The default is below Nova's own limit, which is 800 s by default.",
    ),
    cfg.FloatOpt(
        "escalation_least_timeout_s",
        default=300.0,
        min=1.0,
        max=LONGEST_S,
        help="Least number of seconds before a migration is aborted. It applies to servers with "
        "little memory, for which escalation_timeout_s_per_gib is too short.",
    ),
    cfg.FloatOpt(
        "escalation_lease_s",
        default=60.0,
        min=0.5,
        max=LONGEST_S,
        help="Seconds without a write after which the vp-scheduler that works on an escalation "
        "is considered dead. Another vp-scheduler then continues. Set at least twice [cloud] "
        "timeout.",
    ),
    cfg.FloatOpt(
        "escalation_settle_s",
        default=30.0,
        min=0.1,
        max=LONGEST_S,
        help="Seconds to look for a migration in Nova after a request whose answer was lost "
        "(error 503, lost connection). After that the request is repeated.",
    ),
    cfg.FloatOpt(
        "escalation_poll_s",
        default=2.0,
        min=0.1,
        max=LONGEST_S,
        help="Seconds between two looks for new escalations and at running migrations.",
    ),
    cfg.FloatOpt(
        "escalation_host_down_s",
        default=180.0,
        min=0.0,
        max=LONGEST_S,
        help="Seconds for which Nova must report the source host of a running migration as down "
        "before the migration counts as failed. Only the source host knows its result.",
    ),
]
for _option in OPTS:
    # By those two a worker and those that might take over from it judge each other as they began.
    _option.mutable = _option.name not in ("escalation_lease_s", "escalation_poll_s")


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=scheduler.GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [(scheduler.GROUP, OPTS)]
