# SPDX-License-Identifier: Apache-2.0
"""Which servers overlays have by the registry and by `vp:group`, and where hosts report them."""

from collections.abc import Iterable, Mapping

from nova_vp.db.overlays import ListedOverlay, OverlayStore
from nova_vp.db.read_api import ReadApi
from nova_vp.db.records import VpHead

Members = Mapping[str, VpHead | None]
"""By UUID; None: no host reports it for the overlay's project."""


def members_of(
    listed: Iterable[ListedOverlay], overlays: OverlayStore, browser: ReadApi
) -> list[Members]:
    """Of each, in their order. Raises `report_store.ERRORS`."""
    listed = list(listed)
    groups = _groups(listed, overlays, browser)
    named = [uuid for one in listed if one.registered for uuid in one.registered.servers]
    heads = browser.find_heads(named)
    return [
        _registered(one.project_id, one.registered.servers, heads)
        if one.registered is not None
        else dict(sorted(groups.get((one.project_id, one.name), {}).items()))
        for one in listed
    ]


def hosts_of(members: Members) -> dict[str, list[str]]:
    """By host, its servers there."""
    found: dict[str, list[str]] = {}
    for uuid, head in members.items():
        if head is not None:
            found.setdefault(head.host, []).append(uuid)
    return found


def _groups(
    listed: Iterable[ListedOverlay], overlays: OverlayStore, browser: ReadApi
) -> dict[tuple[str, str], dict[str, VpHead | None]]:
    """By project and group, without servers that are in registered overlays."""
    heads = browser.members_of({(o.project_id, o.name) for o in listed if o.registered is None})
    taken = overlays.of_servers(head.uuid for head in heads)[1] if heads else {}
    found: dict[tuple[str, str], dict[str, VpHead | None]] = {}
    for head in heads:
        if head.uuid not in taken:
            found.setdefault((head.project_id, head.group), {})[head.uuid] = head
    return found


def _registered(
    project_id: str, servers: Iterable[str], heads: Mapping[str, VpHead]
) -> dict[str, VpHead | None]:
    def own(uuid: str) -> VpHead | None:
        """A host may claim any server for any project."""
        head = heads.get(uuid)
        return head if head is not None and head.project_id == project_id else None

    return {uuid: own(uuid) for uuid in sorted(servers)}
