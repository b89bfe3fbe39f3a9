# SPDX-License-Identifier: Apache-2.0
"""The one place where `[cloud]` becomes a keystoneauth session; Nova and Placement share it.

Nothing is asked of the cloud here: the first call through the session gets the token.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from keystoneauth1 import exceptions, loading
from keystoneauth1.session import Session
from oslo_config import cfg

from nova_vp.conf import cloud

USER_AGENT = "nova-vp"


class Cloud(NamedTuple):
    """Who we are there, and which endpoints are ours: what every client needs."""

    session: Session
    auth_for: Callable[[str], Any]
    """The identity plugin as a member of the project of that id. Makes no call."""
    region_name: str | None
    interfaces: list[str]
    compute_override: str | None
    placement_override: str | None


def is_configured(conf: cfg.ConfigOpts) -> bool:
    cloud.register_opts(conf)
    return bool(conf.cloud.auth_type)


def open_cloud(conf: cfg.ConfigOpts) -> Cloud:
    """Raises cfg.Error, saying what is missing."""
    cloud.register_opts(conf)
    auth = _load(loading.load_auth_from_conf_options, conf)
    if auth is None:
        raise cfg.Error(
            "[cloud] auth_type is not set: give auth_type = password, auth_url, username, "
            "password, project_name and the domains of a user with the role of "
            "etc/nova-vp/nova-policy.yaml"
        )
    session = _load(
        loading.load_session_from_conf_options,
        conf,
        auth=auth,
        app_name=USER_AGENT,
    )

    def auth_for(project_id: str) -> Any:
        if not conf.cloud.scope_to_server_project:
            return auth
        return _load(loading.load_auth_from_conf_options, conf, **_scope(project_id))

    return Cloud(
        session=session,
        auth_for=auth_for,
        region_name=conf.cloud.region_name,
        interfaces=conf.cloud.valid_interfaces,
        compute_override=conf.cloud.compute_endpoint_override,
        placement_override=conf.cloud.placement_endpoint_override,
    )


def _scope(project_id: str) -> dict[str, str | None]:
    """An id needs no domain, and keystone refuses a project that is named twice."""
    others = ("project_name", "project_domain_id", "project_domain_name", "system_scope")
    return {"project_id": project_id, **dict.fromkeys(others)}


def _load(load: Any, conf: cfg.ConfigOpts, **more: Any) -> Any:
    try:
        return load(conf, cloud.GROUP, **more)
    except exceptions.ClientException as exc:
        raise cfg.Error(f"[cloud]: {exc}") from exc
