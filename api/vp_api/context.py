# SPDX-License-Identifier: Apache-2.0
"""Who is asking: the identity that auth_token verified, as one object in the request.

The headers are believed here, so nothing may reach this middleware but through auth_token,
which strips what the client forged. `deploy.py` keeps that order.
"""

from typing import Any

import webob
import webob.dec
from oslo_context.context import RequestContext
from oslo_middleware import request_id

from vp_api.errors import ApiError, Code

_KEY = "nova_vp.context"


class RequireIdentity:
    """No user, no entry; a token without a project has no rights here either."""

    def __init__(self, application: Any) -> None:
        self._application = application

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        context = RequestContext.from_environ(
            request.environ, request_id=request.environ.get(request_id.ENV_REQUEST_ID)
        )
        if not context.user_id:
            raise ApiError(Code.UNAUTHENTICATED, "Send a valid token as X-Auth-Token.")
        if not context.project_id:
            raise ApiError(
                Code.FORBIDDEN,
                "This API needs a project-scoped token: give a project (--os-project-name).",
            )
        request.environ[_KEY] = context
        return request.get_response(self._application)


def context_of(request: webob.Request) -> RequestContext:
    context: RequestContext = request.environ[_KEY]
    return context
