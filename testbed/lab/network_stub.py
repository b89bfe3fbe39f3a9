# SPDX-License-Identifier: Apache-2.0
"""A network service without networks: answers the few Network API reads Nova makes for any server.

Servers of the lab boot with networks=none, yet Nova lists ports when it shows a server and fails
with HTTP 500 when nobody answers. Stands in for neutron, which nothing here needs.
"""

import json
import re
from collections.abc import Callable, Iterable

EXTENSIONS = ("binding", "binding-extended", "port-resource-request", "standard-attr-segment")
QUOTAS = ("network", "port", "floatingip", "security_group", "security_group_rule")


def application(environ: dict, start_response: Callable) -> Iterable[bytes]:
    path = environ.get("PATH_INFO", "").rstrip("/")
    body = _answer(path, environ.get("HTTP_HOST", "")) if _is_read(environ) else None
    status = "200 OK" if body is not None else "404 Not Found"
    if body is None:
        body = {"NeutronError": {"type": "NotFound", "message": path, "detail": ""}}
    text = json.dumps(body).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(text)))]
    start_response(status, headers)
    return [text]


def _is_read(environ: dict) -> bool:
    return environ["REQUEST_METHOD"] == "GET"


def _answer(path: str, host: str) -> dict | None:
    if path == "":
        link = {"rel": "self", "href": f"http://{host}/v2.0/"}
        return {"versions": [{"id": "v2.0", "status": "CURRENT", "links": [link]}]}
    if path == "/v2.0":
        return {"resources": []}
    if path == "/v2.0/extensions":
        return {"extensions": [_extension(alias) for alias in EXTENSIONS]}
    if path.startswith("/v2.0/quotas/"):
        return {"quota": dict.fromkeys(QUOTAS, -1)}
    if match := re.fullmatch(r"/v2\.0/([a-z_-]+)", path):
        return {match[1].replace("-", "_"): []}
    return None


def _extension(alias: str) -> dict:
    updated = "2020-01-01T00:00:00-00:00"
    return {"alias": alias, "name": alias, "description": alias, "links": [], "updated": updated}
