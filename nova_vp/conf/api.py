# SPDX-License-Identifier: Apache-2.0
"""`[vp_api]`: what vp-api serves beside its REST."""

from oslo_config import cfg

from nova_vp.conf.common import metrics_opts

GROUP = "vp_api"

OPTS = metrics_opts()


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [(GROUP, OPTS)]
