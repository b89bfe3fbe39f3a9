# SPDX-License-Identifier: Apache-2.0
"""Users and projects by name: vp-api keeps ids, and keystone knows what they are called.

The id stands for one that is gone, or that the user of the request may not ask for.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Any

from horizon import exceptions
from openstack_dashboard.api import keystone

LOG = logging.getLogger(__name__)

Told = dict[str, Any]

MOST_PROJECTS = 20
"""Of a page that are asked for, each by a request; the others have their ids."""
KEPT = "_vp_project_names"
"""Attribute of a request."""


def with_users(request: Any, rows: Iterable[Told]) -> list[Told]:
    """`accepted_by` of each as a name. One request of keystone for each user."""
    rows = list(rows)
    users = {one["accepted_by"] for one in rows if one.get("accepted_by")}
    names = {user_id: _name(keystone.user_get, request, user_id) for user_id in users}
    return [{**one, "accepted_by": names.get(one.get("accepted_by"))} for one in rows]


def project(request: Any, project_id: str) -> str:
    """Hosts may not have told the project: then there is nothing to ask for."""
    names: dict[str, str] = request.__dict__.setdefault(KEPT, {})
    if project_id and project_id not in names and len(names) < MOST_PROJECTS:
        names[project_id] = _name(keystone.tenant_get, request, project_id)
    return names.get(project_id, project_id)


def _name(ask: Callable[[Any, str], Any], request: Any, found_id: str) -> str:
    try:
        return str(ask(request, found_id).name)
    except (*exceptions.RECOVERABLE, *exceptions.NOT_FOUND, *exceptions.UNAUTHORIZED) as exc:
        LOG.info("Keystone does not tell the name of %s: %s", found_id, exc)
        return found_id
