# SPDX-License-Identifier: Apache-2.0
"""`GET /health`: whether this vp-api can do its work, for load balancers, without a token.

Outside the pipeline, since keystone's absence is not ours, and of this process alone: how the
service is as a whole is `/v1/health`, for those who may know. oslo.middleware's healthcheck knows
no warning, and a vp-api without its bus still reads.
"""

import json
from collections.abc import Callable
from datetime import datetime
from typing import Any

import webob
import webob.dec

from nova_vp.db.report_store import ERRORS
from nova_vp.service.health import (
    MEDIA_TYPE,
    Check,
    Health,
    bus_check,
    database_check,
    public_document,
)
from nova_vp.service.last_look import LastLook
from vp_api.services import Services

PATH = "/health"


class HealthCheck:
    def __init__(self, application: Callable[..., Any], services: Services) -> None:
        self._application = application
        self._services = services
        self.look = LastLook(self._health)

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        if request.environ.get("PATH_INFO") != PATH:
            return request.get_response(self._application)
        if request.method not in ("GET", "HEAD"):
            return webob.Response(status=405, allow="GET, HEAD")
        return self._answer()

    def _answer(self) -> webob.Response:
        found = self.look()
        now: datetime = self._services.clock()
        return webob.Response(
            text=json.dumps(public_document(found, now)),
            status=found.http_status,
            content_type=MEDIA_TYPE,
            charset="utf-8",
            cache_control="no-store",
        )

    def _health(self) -> Health:
        checks = (bus_check(self._services.is_bus_reachable()), self._database())
        return Health("vp-api", "nova-vp API: hosts and servers by REST", checks)

    def _database(self) -> Check:
        try:
            self._services.stored.browser.reach()
        except ERRORS:
            return database_check(is_answering=False)
        return database_check(is_answering=True)
