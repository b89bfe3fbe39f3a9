# SPDX-License-Identifier: Apache-2.0
"""VPs of several servers: who belongs to one, wherever it runs, and what it does as a whole."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from nova_vp.db.read_api import ReadApi
from nova_vp.db.records import VpHead
from nova_vp.vp_group import Combined, combined
from vp_api.vp_report import vp_reports_of

MOST_HOSTS = 32
"""Whose reports are read for one answer. Servers of other hosts count as not measured."""
GroupKey = tuple[str, str]
"""Project and group: names of groups are the project's own."""


class Member(NamedTuple):
    head: VpHead
    metrics: Mapping[str, Any] | None
    """Of now; None: it is not measured, its host is silent, or its report was not read."""


class VpGroup(NamedTuple):
    """One VP of several servers."""

    members: tuple[Member, ...]

    @property
    def now(self) -> Combined | None:
        """What they do together, as far as they are measured; None: nobody is."""
        return combined(one.metrics for one in self.members)


def groups_of(browser: ReadApi, heads: Iterable[VpHead], now: datetime) -> dict[GroupKey, VpGroup]:
    """The VPs that these servers are part of."""
    members = browser.members_of({key for head in heads if (key := key_of(head)) is not None})
    hosts = sorted({head.host for head in members})
    metrics = {
        (record.host, one.server_id.lower()): None if one.age.is_stale else one.vp["metrics"]
        for record in browser.get_hosts(hosts[:MOST_HOSTS])
        for one in vp_reports_of(record, now)
    }
    found: dict[GroupKey, list[Member]] = {}
    for head in members:
        member = Member(head, metrics.get((head.host, head.uuid)))
        found.setdefault((head.project_id, head.group), []).append(member)
    return {key: VpGroup(tuple(listed)) for key, listed in found.items()}


def key_of(head: VpHead) -> GroupKey | None:
    """None: it is alone. A guest without a project is nobody's."""
    return (head.project_id, head.group) if head.project_id and head.group else None
