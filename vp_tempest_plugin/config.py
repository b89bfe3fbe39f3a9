# SPDX-License-Identifier: Apache-2.0
"""What tempest.conf says of the deployment: options, and nothing of tempest's own."""

from oslo_config import cfg

SERVICE_AVAILABLE = cfg.OptGroup("service_available", title="Available OpenStack services")
GROUP = cfg.OptGroup("performance_isolation", title="Performance isolation (nova-vp)")

AVAILABLE_OPTS = [
    cfg.BoolOpt(
        "nova_vp",
        default=True,
        help="Whether nova-vp is deployed. With false all tests of this plugin are skipped.",
    )
]

OPTS = [
    cfg.StrOpt(
        "catalog_type",
        default="performance-isolation",
        help="Type of the service in the catalog of keystone.",
    ),
    cfg.StrOpt(
        "region",
        default="",
        help="Region of the service in the catalog. Empty: that of [identity].",
    ),
    cfg.StrOpt(
        "endpoint_type",
        default="publicURL",
        choices=["public", "admin", "internal", "publicURL", "adminURL", "internalURL"],
        help="Which endpoint of the service is used.",
    ),
    cfg.StrOpt(
        "min_microversion",
        default="1.0",
        help="Tests of microversions below this one are skipped.",
    ),
    cfg.StrOpt(
        "max_microversion",
        default="latest",
        help="Tests that need a later microversion than this one are skipped. latest: none is.",
    ),
    cfg.IntOpt(
        "report_timeout",
        default=120,
        min=1,
        help="Seconds within which what happens on a host must be seen in the API. Agents report "
        "each material change, and once a minute.",
    ),
    cfg.IntOpt(
        "reaction_timeout",
        default=240,
        min=1,
        help="Seconds within which a server must be measured, a degradation detected and "
        "mitigated. A server is measured while nothing disturbs it for some ten seconds.",
    ),
    cfg.IntOpt(
        "silence",
        default=20,
        min=1,
        help="Seconds for which scenarios watch that nothing is done where nothing may be done. An "
        "agent acts within three seconds.",
    ),
    cfg.StrOpt(
        "image_ref",
        default="",
        help="Image of the servers of scenarios. Empty: [compute] image_ref.",
    ),
    cfg.StrOpt(
        "sensitive_user_data",
        default="",
        help="User data with which a server of image_ref works in a memory area of about the size "
        "of a last-level cache, so that it loses much to a neighbour that streams. Empty: "
        "scenarios that need such a server are skipped.",
    ),
    cfg.StrOpt(
        "streaming_user_data",
        default="",
        help="User data with which a server of image_ref streams through memory and evicts what "
        "others keep in the cache. It must begin some ten seconds after the boot, since scenarios "
        "pause the server before that. Empty: scenarios that need such a server are skipped.",
    ),
]


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    return [(SERVICE_AVAILABLE, AVAILABLE_OPTS), (GROUP, OPTS)]
