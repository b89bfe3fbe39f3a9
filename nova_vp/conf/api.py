# SPDX-License-Identifier: Apache-2.0
"""`[vp_api]`: what vp-api serves beside its REST, and what it allows tenants."""

from oslo_config import cfg

from nova_vp.conf.common import metrics_opts

GROUP = "vp_api"

OPTS = [
    *metrics_opts(),
    cfg.IntOpt(
        "override_changes_per_hour",
        default=6,
        min=1,
        help="Changes that tenants may make to the overrides of one server within an hour, counted "
        "over all vp-api processes. More are refused with HTTP status 429. Changes by operators "
        "are not limited. The default lets a person correct a mistake, and keeps a script from "
        "having its host change the server back and forth.",
    ),
    cfg.IntOpt(
        "latency_reports_per_s",
        default=50,
        min=1,
        help="Reports of latency that one project may send within a second, counted by each vp-api "
        "process. More are refused with HTTP status 429. At most one report per server and half "
        "second is forwarded, and the host of the server uses no more. The default is enough for "
        "100 latency-critical servers that report every two seconds.",
    ),
    cfg.IntOpt(
        "overlays_per_project",
        default=20,
        min=0,
        max=1000,
        help="Overlays that one project may have, without those that follow from vp:group. More "
        "are refused with HTTP status 403; those that exist stay. The default is enough for an "
        "overlay per application of most projects.",
    ),
    cfg.IntOpt(
        "servers_per_overlay",
        default=50,
        min=1,
        max=1000,
        help="Servers that may be in one overlay. More are refused with HTTP status 403; those "
        "that are in it stay. The default is more than the servers of one application that share "
        "hosts.",
    ),
    cfg.IntOpt(
        "overlay_requests_per_s",
        default=50,
        min=1,
        help="Calls and changes of overlays that one project may make within a second, counted by "
        "each vp-api process. More are refused with HTTP status 429. Each host limits the calls of "
        "an overlay besides. The default lets ten applications call five times a second.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(OPTS, group=GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [(GROUP, OPTS)]
