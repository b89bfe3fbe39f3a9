# SPDX-License-Identifier: Apache-2.0
"""The pipeline around the routes, built once and in one place.

`loadapp` is what servers and tests call; who the store and the agents are is their caller's
choice, that every request but the version documents passes auth_token is not.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import oslo_middleware
import webob
import webob.dec
from keystonemiddleware import auth_token
from oslo_config import cfg
from oslo_middleware.request_id import RequestId
from oslo_utils import timeutils

from vp_api.context import RequireIdentity
from vp_api.errors import JsonErrors
from vp_api.policy import Policy
from vp_api.routes import PUBLIC, Dispatcher, path_of
from vp_api.seams import Agents, Services, Store

SERVICE_TYPE = "performance-isolation"

Application = Callable[..., Any]
Authenticate = Callable[[Application, cfg.ConfigOpts], Application]


def keystone(application: Application, conf: cfg.ConfigOpts) -> Application:
    """Validates the token and replaces every identity header with what keystone said."""
    return auth_token.AuthProtocol(
        application,
        {
            "oslo_config_config": conf,
            # Access rules of application credentials name the service by this.
            "service_type": SERVICE_TYPE,
            "service_token_roles_required": "true",
            "delay_auth_decision": "false",
        },
    )


class PublicPaths:
    """Version documents go straight to the routes, all else through the guard."""

    def __init__(self, public: Application, guarded: Application) -> None:
        self._public = public
        self._guarded = guarded

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        is_public = path_of(request) in PUBLIC
        return request.get_response(self._public if is_public else self._guarded)


def utc_now() -> datetime:
    return timeutils.utcnow(with_timezone=True)


def loadapp(
    conf: cfg.ConfigOpts,
    store: Store,
    agents: Agents,
    *,
    clock: Callable[[], datetime] = utc_now,
    authenticate: Authenticate = keystone,
) -> Application:
    """The WSGI application. `conf` must have been called: its files are read by now."""
    application: Application = Dispatcher(Services(store, agents, Policy(conf), clock))
    guarded = authenticate(RequireIdentity(application), conf)
    application = PublicPaths(application, guarded)
    application = oslo_middleware.RequestBodySizeLimiter(application, conf)
    application = oslo_middleware.HTTPProxyToWSGI(application, conf)
    # Outside all that may fail, inside what gives the id that an error is quoted by.
    application = JsonErrors(application)
    return RequestId(application, conf)
