# SPDX-License-Identifier: Apache-2.0
"""Users by name: vp-api keeps ids, and keystone knows what they are called."""

import logging
from collections.abc import Iterable
from typing import Any

from horizon import exceptions
from openstack_dashboard.api import keystone

LOG = logging.getLogger(__name__)

Told = dict[str, Any]


def with_names(request: Any, rows: Iterable[Told]) -> list[Told]:
    """`accepted_by` of each as a name. One request of keystone for each user."""
    rows = list(rows)
    users = {one["accepted_by"] for one in rows if one.get("accepted_by")}
    names = {user_id: name_of(request, user_id) for user_id in users}
    return [{**one, "accepted_by": names.get(one.get("accepted_by"))} for one in rows]


def name_of(request: Any, user_id: str) -> str:
    """The id, of one that is gone or that the user of the request may not ask for."""
    try:
        return str(keystone.user_get(request, user_id).name)
    except exceptions.RECOVERABLE as exc:
        LOG.info("Keystone does not tell the name of user %s: %s", user_id, exc)
        return user_id
