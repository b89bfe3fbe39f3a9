# SPDX-License-Identifier: Apache-2.0
"""`[bus]`: how hosts and services reach each other."""

from oslo_config import cfg

from nova_vp.conf.common import LONGEST_S

GROUP = "bus"

OPTS = [
    cfg.StrOpt(
        "transport_url",
        secret=True,
        help="RabbitMQ for digests, reports and commands. Unset: [DEFAULT] transport_url. In a "
        "file that is shared with Nova, that is Nova's broker.",
    ),
    cfg.StrOpt(
        "keys_directory",
        default="/etc/nova-vp/keys",
        help="Directory of the keys with which this machine's programs sign what they send: "
        "PROGRAM.pem, and `trusted` with the public keys of the controllers. `vp-manage "
        "credentials create` makes it.",
    ),
    cfg.FloatOpt(
        "refresh_interval_s",
        default=60.0,
        min=1.0,
        max=LONGEST_S,
        mutable=True,
        help="Seconds after which a host publishes its digest and report again, even if nothing "
        "changed. A random tenth is added or subtracted, so that a thousand hosts do not publish "
        "at the same time. The default gives three refreshes within [vp_scheduler] "
        "stale_after_s.",
    ),
    cfg.FloatOpt(
        "min_publish_interval_s",
        default=1.0,
        min=0.1,
        max=LONGEST_S,
        mutable=True,
        help="Least number of seconds between two reports of one host. It limits the load on the "
        "bus when a host changes often.",
    ),
    cfg.FloatOpt(
        "usage_interval_s",
        default=60.0,
        min=0.1,
        max=LONGEST_S,
        help="Seconds between two messages with the usage of servers with a pollution permit; a "
        "random tenth is added or subtracted. A host without such servers sends none.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [(GROUP, OPTS)]
