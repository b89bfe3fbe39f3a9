# SPDX-License-Identifier: Apache-2.0
"""`[bus]`: how hosts and services reach each other."""

from oslo_config import cfg

from nova_vp.conf.common import LONGEST_S

GROUP = "bus"

OPTS = [
    cfg.StrOpt(
        "transport_url",
        secret=True,
        help="RabbitMQ for digests, reports and commands. Unset: [DEFAULT] transport_url, that is "
        "Nova's own broker when the files are shared.",
    ),
    cfg.FloatOpt(
        "refresh_interval_s",
        default=60.0,
        min=1.0,
        max=LONGEST_S,
        mutable=True,
        help="An unchanged host repeats its digest and report about this often (jittered by a "
        "tenth, so that a thousand hosts do not speak at once).",
    ),
    cfg.FloatOpt(
        "min_publish_interval_s",
        default=1.0,
        min=0.1,
        max=LONGEST_S,
        mutable=True,
        help="Least time between two reports of one host, however much changes.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [(GROUP, OPTS)]
