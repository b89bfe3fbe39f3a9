# SPDX-License-Identifier: Apache-2.0
"""Names as Nova has them now, of host aggregates and of servers of all projects. One request each.

None: Nova cannot be asked, or does not tell this user.
"""

import logging
import re
from typing import Any

from horizon.exceptions import ServiceCatalogException
from keystoneauth1 import exceptions as ksa_exceptions

from vp_dashboard.adapters import adapter_of

LOG = logging.getLogger(__name__)
COMPUTE = "compute"
NO_ANSWER = (ServiceCatalogException, ksa_exceptions.ClientException, ValueError, KeyError)


def aggregates(request: Any) -> list[str] | None:
    found = _listed(request, "os-aggregates", "aggregates")
    return None if found is None else sorted(one["name"] for one in found)


def servers_named(request: Any, name: str) -> list[str]:
    """Their ids. Nova takes a pattern, and may find more by it."""
    wanted = {"all_tenants": "1", "name": f"^{re.escape(name)}$"}
    found = _listed(request, "servers", "servers", **wanted)
    return [str(one["id"]) for one in found or () if one["name"] == name]


def _listed(request: Any, path: str, key: str, **query: str) -> list[dict[str, Any]] | None:
    try:
        adapter = adapter_of(request, COMPUTE)
        listed: list[dict[str, Any]] = adapter.get(f"/{path}", params=query).json()[key]
        return listed
    except NO_ANSWER as exc:
        LOG.warning("Nova cannot be asked for %s: %s", path, exc)
        return None
