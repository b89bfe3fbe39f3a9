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
from oslo_config import cfg
from oslo_middleware.request_id import RequestId
from oslo_utils import timeutils

from nova_vp import conf as options
from vp_api.context import RequireIdentity
from vp_api.dispatch import Dispatcher, path_of
from vp_api.errors import JsonErrors
from vp_api.healthcheck import HealthCheck
from vp_api.identity import keystone
from vp_api.policy import Policy
from vp_api.routes import PUBLIC, ROUTES
from vp_api.services import Agents, Services, Stored
from vp_api.versions import Negotiate

Application = Callable[..., Any]
Authenticate = Callable[[Application, cfg.ConfigOpts], Application]


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
    now: datetime = timeutils.utcnow(with_timezone=True)
    return now


def loadapp(
    conf: cfg.ConfigOpts,
    stored: Stored,
    agents: Agents,
    *,
    clock: Callable[[], datetime] = utc_now,
    is_bus_reachable: Callable[[], bool | None] = lambda: None,
    authenticate: Authenticate = keystone,
) -> HealthCheck:
    """The WSGI application. `conf` must have been called: its files are read by now."""
    options.register_all(conf)
    services = Services(conf, stored, agents, Policy(conf), clock, is_bus_reachable)
    application: Application = Dispatcher(services, ROUTES)
    guarded = authenticate(RequireIdentity(application), conf)
    application = PublicPaths(application, guarded)
    application = oslo_middleware.RequestBodySizeLimiter(application, conf)
    application = oslo_middleware.HTTPProxyToWSGI(application, conf)
    # Outside all that may fail, inside what gives the id that an error is quoted by.
    application = Negotiate(JsonErrors(application))
    return HealthCheck(RequestId(application, conf), services)
