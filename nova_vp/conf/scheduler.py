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
        help="A host whose last digest was received longer ago than this is unknown: three missed "
        "refreshes at the default interval.",
    ),
    cfg.StrOpt(
        "stale_hosts",
        default=StaleHosts.PASS.value,
        choices=[
            (StaleHosts.PASS.value, "unknown hosts are left to Nova's other filters"),
            (StaleHosts.REFUSE.value, "unknown hosts take no server with vp:isolation=strict"),
        ],
        help="What VPIsolationFilter does with hosts nothing is known of. Passing keeps the cloud "
        "usable when the message bus or our agents are down.",
    ),
    cfg.FloatOpt(
        "interference_weight_multiplier",
        default=100.0,
        help="Multiplier of VPInterferenceWeigher, whose weights lie between 0 and 1. Nova's RAM, "
        "CPU and disk weighers add up to at most 3 at their defaults: at 100, a predicted loss of "
        "3 percentage points beyond [policy] strict_max_hurt_ratio outweighs all of them. 0 turns "
        "the weigher off. Aggregate metadata of the same name wins.",
    ),
    cfg.ListOpt(
        "known_hosts",
        default=[],
        mutable=True,
        help="The only host names from which digests and reports are accepted. Empty: any. Who "
        "holds credentials for the message bus can speak for every host accepted here.",
    ),
    cfg.FloatOpt(
        "traits_interval_s",
        default=60.0,
        min=0.0,
        max=LONGEST_S,
        help="How often the CUSTOM_VP_* traits of the hosts are compared with what Placement has, "
        "give or take a tenth. Needs [cloud]. 0: never; the traits stay as they are.",
    ),
    cfg.IntOpt(
        "batch_size",
        default=100,
        min=1,
        max=1000,
        help="Reports that vp-scheduler stores in one transaction at most.",
    ),
    cfg.IntOpt(
        "history_days",
        default=7,
        min=0,
        max=36500,
        help="Days for which the minutes of hosts and servers are kept, for charts. A host with 20 "
        "servers takes about 1.5 MiB a day. 0: no history is written.",
    ),
    cfg.IntOpt(
        "ledger_days",
        default=90,
        min=1,
        max=36500,
        help="Days for which actions and settled escalations are kept, and for which a host or a "
        "server that is not heard any more is remembered.",
    ),
    cfg.IntOpt(
        "learn_from_vps",
        default=3,
        min=1,
        help="Servers of one flavor and image that must have been measured before the next one "
        "that nobody has measured is taken to be like most of them.",
    ),
    *metrics_opts(),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [(GROUP, OPTS)]
