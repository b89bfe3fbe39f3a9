# SPDX-License-Identifier: Apache-2.0
"""Overlays as a caller may know of them: registered ones, and those that follow from `vp:group`.

An overlay of somebody else and one that does not exist are answered alike.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from nova_vp.core.types.overlay import ArbitrationClass
from nova_vp.db.overlay_members import Members, hosts_of, members_of
from nova_vp.db.overlays import ListedOverlay
from nova_vp.registered_overlay import RegisteredOverlay, group_overlay
from vp_api.errors import ApiError, Code
from vp_api.operation import Call
from vp_api.policies import overlays as policies


@dataclass(frozen=True, slots=True)
class KnownOverlay:
    id: str
    project_id: str
    name: str
    is_group: bool
    priority: int
    arbitration: ArbitrationClass
    target: float | None
    target_unit: str
    changed_at: datetime | None
    changed_by: str | None
    """None: nobody changes it."""
    heads: Members

    @property
    def hosts(self) -> dict[str, list[str]]:
        return hosts_of(self.heads)


def find(call: Call, overlay_id: str) -> KnownOverlay:
    """One that the caller may see. Raises ApiError."""
    stored = call.services.stored.overlays
    registered = stored.get(overlay_id)
    if registered is not None:
        listed = ListedOverlay(registered.project_id, registered.name, registered)
    else:
        group = stored.find_group(overlay_id, None if call.sees_all else call.project_id)
        if group is None:
            raise no_such(overlay_id)
        listed = ListedOverlay(*group, None)
    if not _may_see(call, listed.project_id):
        raise no_such(overlay_id)
    [found] = known(call, [listed])
    return found


def find_to_change(call: Call, overlay_id: str) -> KnownOverlay:
    """One that the caller may change. Raises ApiError."""
    found = find(call, overlay_id)
    owner = {"project_id": found.project_id}
    call.services.policy.require(call.context, policies.CHANGE, owner)
    if found.is_group:
        raise ApiError(
            Code.GROUP_OVERLAY,
            "Its servers are those whose flavor has this vp:group. Create an overlay with these "
            "servers to have one that can be changed.",
        )
    return found


def _may_see(call: Call, project_id: str) -> bool:
    if call.sees_all:
        return True
    owner = {"project_id": project_id}
    is_own = bool(project_id) and project_id == call.project_id
    return is_own and call.services.policy.allows(call.context, policies.SHOW, owner)


def known(call: Call, listed: Iterable[ListedOverlay]) -> list[KnownOverlay]:
    """With their servers, as hosts report these."""
    listed = list(listed)
    stored = call.services.stored
    members = members_of(listed, stored.overlays, stored.browser)
    return [
        _registered(one.registered, heads) if one.registered is not None else _group(one, heads)
        for one, heads in zip(listed, members, strict=True)
    ]


def _registered(one: RegisteredOverlay, heads: Members) -> KnownOverlay:
    return KnownOverlay(
        id=one.id,
        project_id=one.project_id,
        name=one.name,
        is_group=False,
        priority=one.priority,
        arbitration=one.arbitration,
        target=one.target,
        target_unit=one.target_unit,
        changed_at=one.at,
        changed_by=one.by,
        heads=heads,
    )


def _group(one: ListedOverlay, heads: Members) -> KnownOverlay:
    overlay = group_overlay(one.project_id, one.name)
    return KnownOverlay(
        id=overlay.id,
        project_id=one.project_id,
        name=one.name,
        is_group=True,
        priority=int(overlay.priority),
        arbitration=overlay.arbitration,
        target=overlay.target,
        target_unit=overlay.target_unit,
        changed_at=None,
        changed_by=None,
        heads=heads,
    )


def no_such(overlay_id: str) -> ApiError:
    return ApiError(
        Code.OVERLAY_NOT_FOUND,
        f"You can see no overlay '{overlay_id}'. `openstack vp overlay list` lists those that you "
        "can see, with their ids.",
    )
