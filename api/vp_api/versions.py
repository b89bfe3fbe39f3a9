# SPDX-License-Identifier: Apache-2.0
"""Microversions: which one a request asks for, and that every answer says which one it got.

1.0 is what the first release spoke. 1.1: pages, filters, sorting; history, actions, escalations,
profiles, policies, health; overrides of single servers. 1.2: reports of latency, and what servers
are for. 1.3: overlays and their calls, islands; modes of the cloud and of aggregates, and where a
mode comes from. 1.4: how much servers lose; rejected proposals, and who accepted one. Who names no
version gets 1.0, so that programs which were written against it go on working.
"""

from typing import Any

import microversion_parse
import webob
import webob.dec
from microversion_parse import Version

from vp_api.errors import ApiError, Code

SERVICE_TYPE = "performance-isolation"
"""In the catalog, by which SDKs ask for microversions."""
OLD_WORD = "vp"
"""What clients before 1.2 asked for them by."""
HEADER = "OpenStack-API-Version"
V1_0, V1_1, V1_2, V1_3, V1_4 = VERSIONS = tuple(Version(1, minor) for minor in range(5))
OLDEST, NEWEST = VERSIONS[0], VERSIONS[-1]
_KEY = "nova_vp.version"


class Negotiate:
    """Outside of what turns errors into answers, so that those say their version too."""

    def __init__(self, application: Any) -> None:
        self._application = application

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        version = _asked(request)
        request.environ[_KEY] = version
        response = request.get_response(self._application)
        response.headers["Vary"] = HEADER
        if version is not None:
            response.headers[HEADER] = f"{SERVICE_TYPE} {version}"
        return response


def version_of(request: webob.Request) -> Version:
    """Raises ApiError: one that this release does not speak."""
    version: Version | None = request.environ[_KEY]
    if version is None:
        error = ApiError(
            Code.VERSION_UNSUPPORTED,
            f"Ask for `{HEADER}: {SERVICE_TYPE} {OLDEST}` to `{SERVICE_TYPE} {NEWEST}`, or for "
            f"`{SERVICE_TYPE} latest`.",
        )
        error.more = {"min_version": str(OLDEST), "max_version": str(NEWEST)}
        raise error
    return version


def _asked(request: webob.Request) -> Version | None:
    """None: none that we speak."""
    headers, spoken = request.headers, [str(version) for version in VERSIONS]
    try:
        is_new = microversion_parse.get_version(headers, SERVICE_TYPE) is not None
        word = SERVICE_TYPE if is_new else OLD_WORD
        return microversion_parse.extract_version(headers, word, spoken)
    except (ValueError, TypeError):
        return None
