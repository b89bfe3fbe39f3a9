# SPDX-License-Identifier: Apache-2.0
"""`[vp_scheduler]`: how Nova's scheduler judges hosts, and what the vp-scheduler accepts.

Not `[scheduler]`: the filter and the weigher read these from nova.conf, where that group is Nova's.
"""

import enum

from oslo_config import cfg

from nova_vp.conf.common import LONGEST_S, metrics_opts

GROUP = "vp_scheduler"


class StaleHosts(enum.Enum):
    """What the filter does with a host that nothing is known of."""

    PASS = "pass"
    REFUSE = "refuse"


OPTS = [
    cfg.FloatOpt(
        "stale_after_s",
        default=180.0,
        min=1.0,
        max=LONGEST_S,
        help="Seconds after the last digest from which a host is stale: its values are then "
        "treated as unknown. The default is three missed refreshes at the default [bus] "
        "refresh_interval_s.",
    ),
    cfg.StrOpt(
        "stale_hosts",
        default=StaleHosts.PASS.value,
        choices=[
            (StaleHosts.PASS.value, "pass stale hosts to the other filters of Nova"),
            (
                StaleHosts.REFUSE.value,
                "reject stale hosts for servers with vp:isolation=strict, "
                "and, if llc_permits_per_domain is set, for servers with a pollution permit",
            ),
        ],
        help="What VPIsolationFilter does with stale or unknown hosts. The default keeps the "
        "cloud usable when the message bus or the agents are down.",
    ),
    cfg.FloatOpt(
        "llc_permits_per_domain",
        default=0.0,
        min=0.0,
        help="LLC misses per millisecond that may be booked as pollution permits in each LLC "
        "domain. VPIsolationFilter rejects a host for a server with a permit if no LLC domain of "
        "the host has enough left. What servers without a permit pollute is not counted. 0, the "
        "default: any number may be booked. vp-api shows what is free by its own value.",
    ),
    cfg.FloatOpt(
        "interference_weight_multiplier",
        default=100.0,
        help="Multiplier of VPInterferenceWeigher, whose weights are between 0 and 1. With the "
        "default of 100, a predicted loss of 3 percentage points beyond [policy] "
        "strict_max_hurt_ratio outweighs Nova's RAM, CPU and disk weighers, which add up to at "
        "most 3 at their defaults. 0 disables the weigher. Aggregate metadata of the same name "
        "takes precedence.",
    ),
    cfg.ListOpt(
        "known_hosts",
        default=[],
        mutable=True,
        help="Host names from which digests and reports are accepted. Empty, the default: all. "
        "Anyone with credentials of the message bus can publish for every accepted host.",
    ),
    cfg.FloatOpt(
        "overlay_calls_per_s",
        default=20.0,
        min=0.0,
        max=1000.0,
        help="Calls per second that one vp-scheduler takes of one overlay from monitors on hosts, "
        "for its servers on other hosts; of one host five times as many. More are refused. Needs "
        "[cloud], since Nova is asked which servers a host has. 0: no host calls for servers on "
        "other hosts. Calls of applications are limited by [vp_api] overlay_requests_per_s.",
    ),
    cfg.FloatOpt(
        "traits_interval_s",
        default=60.0,
        min=0.0,
        max=LONGEST_S,
        help="Seconds between two comparisons of the CUSTOM_VP_* traits of the hosts with those "
        "in Placement; a random tenth is added or subtracted. Needs [cloud]. 0 disables the "
        "comparison, and the traits stay as they are.",
    ),
    cfg.FloatOpt(
        "facts_interval_s",
        default=60.0,
        min=0.0,
        max=LONGEST_S,
        help="Seconds between two readings of Nova's host aggregates, server groups and flavor "
        "extra specs, of which agents are told what concerns their hosts; a random tenth is added "
        "or subtracted. Needs [cloud]. 0 disables the readings, and agents keep what they were "
        "told for a day.",
    ),
    cfg.IntOpt(
        "batch_size",
        default=100,
        min=1,
        max=1000,
        help="Maximum number of reports that vp-scheduler stores in one transaction. Larger "
        "values store faster, and repeat more work when a transaction fails.",
    ),
    cfg.IntOpt(
        "history_days",
        default=7,
        min=0,
        max=36500,
        help="Days for which the history of hosts and servers, one row per minute, is kept for "
        "charts. A host with 20 servers takes about 1.5 MiB per day. 0: no history is written.",
    ),
    cfg.IntOpt(
        "ledger_days",
        default=90,
        min=1,
        max=36500,
        help="Days for which actions and settled escalations are kept. Hosts and servers that no "
        "longer report are listed for the same time.",
    ),
    cfg.IntOpt(
        "usage_days",
        default=400,
        min=1,
        max=36500,
        help="Days for which the usage of servers with a pollution permit is kept for billing, one "
        "row per server, hour and attribution. The default keeps the same month of the last year.",
    ),
    cfg.IntOpt(
        "learn_from_projects",
        default=3,
        min=3,
        help="Number of projects with measured, running servers of one flavor and image from which "
        "a new, unmeasured server is taken to be like them. Each project has one vote. With fewer "
        "than 3 projects a single one could decide.",
    ),
    *metrics_opts(),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [(GROUP, OPTS)]
