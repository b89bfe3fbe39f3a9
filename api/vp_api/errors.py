# SPDX-License-Identifier: Apache-2.0
"""Errors as clients see them: one table of codes, one JSON shape, one middleware that ensures it.

Every error carries a detail that says what to do next and the request id to quote; none carries
a stack trace. Raised in handlers, caught here and nowhere in between.
"""

import enum
import json
from typing import Any

import webob
import webob.dec
import webob.exc
from oslo_log import log as logging
from oslo_middleware import request_id

from nova_vp.db.deadline import DatabaseHangs
from nova_vp.db.paging import BadMarker
from nova_vp.db.report_store import ERRORS as STORE_ERRORS

LOG = logging.getLogger(__name__)

JSON = "application/json"
DOCUMENT = "/v1/openapi.json"
"""Answered without a token, so that the help that an error links to can be read by everybody."""
LISTED_ERRORS = "x-openstack-errors"
"""Where that document has them, by code."""
RETRY_AFTER_S = 2
"""With every 503: by then we have looked again at what is away."""


class Code(enum.Enum):
    """What programs tell errors apart by: name on the wire, HTTP status, title."""

    BAD_REQUEST = ("performance-isolation.bad-request", 400, "The request is not valid")
    UNAUTHENTICATED = (
        "performance-isolation.unauthenticated",
        401,
        "The request is not authenticated",
    )
    FORBIDDEN = ("performance-isolation.forbidden", 403, "Your roles do not permit this")
    QUOTA_EXCEEDED = (
        "performance-isolation.quota-exceeded",
        403,
        "The project has used up its quota",
    )
    NOT_FOUND = ("performance-isolation.not-found", 404, "There is no such resource")
    HOST_NOT_FOUND = ("performance-isolation.host-not-found", 404, "The host is not known")
    VP_NOT_FOUND = ("performance-isolation.vp-not-found", 404, "The server is not known")
    ACTION_NOT_FOUND = ("performance-isolation.action-not-found", 404, "The action is not known")
    ESCALATION_NOT_FOUND = (
        "performance-isolation.escalation-not-found",
        404,
        "The escalation is not known",
    )
    PROFILE_NOT_FOUND = ("performance-isolation.profile-not-found", 404, "The profile is not known")
    OVERLAY_NOT_FOUND = ("performance-isolation.overlay-not-found", 404, "The overlay is not known")
    METHOD_NOT_ALLOWED = (
        "performance-isolation.method-not-allowed",
        405,
        "The resource has no such method",
    )
    VERSION_UNSUPPORTED = (
        "performance-isolation.version-unsupported",
        406,
        "The microversion is not supported",
    )
    AGENT_REFUSED = ("performance-isolation.agent-refused", 409, "The agent refused")
    AMBIGUOUS = ("performance-isolation.ambiguous", 409, "More than one resource has this id")
    CHANGED_MEANWHILE = (
        "performance-isolation.changed-meanwhile",
        409,
        "Another request changed the resource",
    )
    NAME_TAKEN = (
        "performance-isolation.name-taken",
        409,
        "The project has another overlay of this name",
    )
    IN_ANOTHER_OVERLAY = (
        "performance-isolation.in-another-overlay",
        409,
        "The server is in another overlay",
    )
    GROUP_OVERLAY = (
        "performance-isolation.group-overlay",
        409,
        "The overlay follows from vp:group",
    )
    NOT_LATENCY_CRITICAL = (
        "performance-isolation.not-latency-critical",
        409,
        "The server is not latency-critical",
    )
    STALE_REPORT = ("performance-isolation.stale-report", 409, "The report says nothing new")
    NOT_PROPOSED = (
        "performance-isolation.not-proposed",
        409,
        "The escalation does not wait for acceptance",
    )
    TOO_LARGE = ("performance-isolation.too-large", 413, "The request is too large")
    TOO_MANY_CHANGES = (
        "performance-isolation.too-many-changes",
        429,
        "The server was changed too often",
    )
    TOO_MANY_CALLS = (
        "performance-isolation.too-many-calls",
        429,
        "Overlays are called or changed too often",
    )
    TOO_MANY_REPORTS = (
        "performance-isolation.too-many-reports",
        429,
        "Latency is reported too often",
    )
    INTERNAL = ("performance-isolation.internal", 500, "vp-api failed")
    STORE_UNAVAILABLE = (
        "performance-isolation.store-unavailable",
        503,
        "The database does not answer",
    )
    IDENTITY_UNAVAILABLE = (
        "performance-isolation.identity-unavailable",
        503,
        "Keystone does not answer",
    )
    BUS_UNAVAILABLE = (
        "performance-isolation.bus-unavailable",
        503,
        "The message bus does not answer",
    )
    AGENT_SILENT = ("performance-isolation.agent-silent", 504, "The agent did not answer")

    @property
    def status(self) -> int:
        return self.value[1]


class ApiError(Exception):
    def __init__(self, code: Code, detail: str) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.headers: dict[str, str] = {}
        self.more: dict[str, str] = {}
        """Fields of the answer that this code has beside those of all."""


FROM_OUTSIDE = {
    400: (Code.BAD_REQUEST, "Send a well-formed HTTP request; doc: the API reference."),
    401: (
        Code.UNAUTHENTICATED,
        "Send a valid token as X-Auth-Token; `openstack token issue` prints one.",
    ),
    413: (
        Code.TOO_LARGE,
        "No request of this API needs a large body; the limit is "
        "[oslo_middleware] max_request_body_size.",
    ),
    503: (
        Code.IDENTITY_UNAVAILABLE,
        "Try again. If it stays: the operator checks [keystone_authtoken] of vp-api and keystone.",
    ),
}
"""What middleware of others answers with, by status."""


class JsonErrors:
    """Whatever goes wrong inside leaves as one of our errors."""

    def __init__(self, application: Any) -> None:
        self._application = application

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        try:
            response = request.get_response(self._application)
        except webob.exc.WSGIHTTPException as exc:
            response = exc
        except Exception as exc:
            return _respond(request, _translate(exc))
        if response.status_int < 400:
            return response
        return _respond(request, _from_status(response))


def _translate(exc: Exception) -> ApiError:
    if isinstance(exc, ApiError):
        return exc
    if isinstance(exc, BadMarker):
        return ApiError(
            Code.BAD_REQUEST,
            "Take the marker from the `next` link of the page before, or the id of its last item, "
            "with the same `sort` and filters.",
        )
    if not isinstance(exc, DatabaseHangs):  # Of which the log has told, once for all requests.
        LOG.exception("vp-api failed")
    if isinstance(exc, STORE_ERRORS):
        return ApiError(
            Code.STORE_UNAVAILABLE,
            "Try again. If it stays: the operator checks [database] connection and runs "
            "`vp-manage db sync`.",
        )
    return ApiError(
        Code.INTERNAL, "Give the request id to your operator: vp-api's log has the cause."
    )


def _from_status(response: webob.Response) -> ApiError:
    code, detail = FROM_OUTSIDE.get(
        response.status_int, (Code.INTERNAL, f"HTTP status {response.status_int}.")
    )
    error = ApiError(code, detail)
    if "WWW-Authenticate" in response.headers:
        error.headers["WWW-Authenticate"] = response.headers["WWW-Authenticate"]
    return error


def _help(request: webob.Request, code: str) -> str:
    return f"{request.application_url}{DOCUMENT}#/{LISTED_ERRORS}/{code}"


def _respond(request: webob.Request, error: ApiError) -> webob.Response:
    name, status, title = error.code.value
    body = {
        "status": status,
        "code": name,
        "title": title,
        "detail": error.detail,
        "request_id": request.environ.get(request_id.ENV_REQUEST_ID),
        "links": [{"rel": "help", "href": _help(request, name)}],
        **error.more,
    }
    response = webob.Response(status=status, content_type=JSON, charset="utf-8")
    response.text = json.dumps({"errors": [body]})
    response.headers.update(error.headers.items())
    if status == 503:
        response.retry_after = RETRY_AFTER_S
    return response
