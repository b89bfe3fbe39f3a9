# SPDX-License-Identifier: Apache-2.0
"""keystonemiddleware's auth_token, with an end to every wait for keystone and for memcached.

By its own defaults it waits for keystone without limit, four times. Tokens that are in the cache
need no keystone; without memcached all others still do.
"""

from typing import Any

from keystoneauth1 import exceptions
from keystonemiddleware import auth_token
from keystonemiddleware.auth_token import _opts
from oslo_config import cfg

from nova_vp.service.outage import Outage

GROUP = "keystone_authtoken"
SERVICE_TYPE = "performance-isolation"
DEFAULTS = {
    "http_connect_timeout": 3,
    # A second wait would be for the same silence. What fails at once the client may repeat.
    "http_request_max_retries": 0,
    "memcache_pool_socket_timeout": 1,
    "memcache_pool_conn_get_timeout": 2,
    # Until then tokens are validated without it.
    "memcache_pool_dead_retry": 10,
}


def register_opts(conf: cfg.ConfigOpts) -> None:
    for group, options in auth_token.list_opts():
        conf.register_opts(options, group=group)
    for name, value in DEFAULTS.items():
        conf.set_default(name, value, group=GROUP)


def set_sample_defaults() -> None:
    """So that the generated sample shows our defaults; oslo-config-generator calls it."""
    cfg.set_defaults(_opts._OPTS, **DEFAULTS)  # `list_opts` copies these, and shows no others.


class _Identity:
    """auth_token's way to keystone, closed while keystone hangs."""

    def __init__(self, server: Any, session: Any) -> None:
        self._server = server
        self._session = session
        self._outage = Outage("keystone")

    def verify_token(self, *arguments: Any, **options: Any) -> Any:
        """Raises what auth_token answers 503 to: ConnectFailure."""
        if self._outage.is_on:
            raise exceptions.ConnectFailure("keystone hangs")
        try:
            return self._server.verify_token(*arguments, **options)
        except exceptions.ConnectionError as exc:
            self._outage.note(exc, self._reach)
            # Of these auth_token knows this one alone, and no timeout.
            raise exceptions.ConnectFailure(str(exc)) from exc

    def _reach(self) -> None:
        url = self._server.www_authenticate_uri  # Of [keystone_authtoken] auth_url, by its name.
        self._session.get(url, authenticated=False, raise_exc=False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._server, name)


def keystone(application: Any, conf: cfg.ConfigOpts) -> Any:
    """Validates the token and replaces every identity header with what keystone said."""
    register_opts(conf)
    guarded = auth_token.AuthProtocol(
        application,
        {
            "oslo_config_config": conf,
            # Access rules of application credentials name the service by this.
            "service_type": SERVICE_TYPE,
            "service_token_roles_required": "true",
            "delay_auth_decision": "false",
        },
    )
    # There is no public seam below its cache and above its session.
    guarded._identity_server = _Identity(guarded._identity_server, guarded._session)
    return guarded
