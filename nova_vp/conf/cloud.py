# SPDX-License-Identifier: Apache-2.0
"""`[cloud]`: the identity with which our services speak to Nova and Placement.

Registered by those who speak to them (`vp_scheduler.escalation.session`, `nova_vp.compute`) and not
with the rest, so that hosts need no keystoneauth.
"""

from typing import Any

from keystoneauth1 import loading
from oslo_config import cfg

GROUP = "cloud"
TIMEOUT_S = 20
"""Without it a connection that nobody answers would be waited for forever."""

OPTS = [
    cfg.ListOpt(
        "valid_interfaces",
        default=["internal", "public"],
        help="Endpoint interfaces of Nova and Placement to use, in order of preference.",
    ),
    cfg.StrOpt(
        "region_name",
        help="Region whose Nova and Placement are used. Unset: the only region of the catalog.",
    ),
    cfg.BoolOpt(
        "scope_to_server_project",
        default=True,
        help="Request a token of the project of the server when calling Nova. This needs the "
        "role of etc/nova-vp/nova-policy.yaml in that project (granted on the domain, "
        "inherited). Nova shows servers of other projects to admins only. Set False for an admin "
        "user, and for application credentials, which are bound to one project.",
    ),
    cfg.StrOpt(
        "compute_endpoint_override",
        help="URL of the Nova API, including /v2.1, to use instead of the one in the catalog.",
    ),
    cfg.StrOpt(
        "placement_endpoint_override",
        help="URL of Placement to use instead of the one in the catalog.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Those of the identity plugin that `auth_type` names are registered when it is loaded."""
    loading.register_session_conf_options(conf, GROUP)
    loading.register_auth_conf_options(conf, GROUP)
    conf.register_opts(OPTS, group=GROUP)
    conf.set_default("timeout", TIMEOUT_S, group=GROUP)


def list_opts() -> list[tuple[str, list[Any]]]:
    """With those of the identity plugin that nearly every cloud uses."""
    common = loading.get_session_conf_options() + loading.get_auth_common_conf_options()
    return [(GROUP, [*common, *loading.get_auth_plugin_conf_options("password"), *OPTS])]
