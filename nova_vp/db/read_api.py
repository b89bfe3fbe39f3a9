# SPDX-License-Identifier: Apache-2.0
"""What vp-api reads, in pages: VPs, hosts, history, actions, escalations, learned profiles.

What is asked stands in `statements.py`; lists unpack no report. No row or session leaves here.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Any

from oslo_config import cfg
from sqlalchemy import func, select

from nova_vp.db import statements
from nova_vp.db.column_types import DAY_MINUTES, aware_at, aware_utc, minute_of, naive_utc
from nova_vp.db.escalations import escalation_of
from nova_vp.db.facade import Context, open_facade
from nova_vp.db.filters import ActionFilter, HostFilter, Span, VpFilter, given
from nova_vp.db.heat import read_heat
from nova_vp.db.mapping import UNKNOWN
from nova_vp.db.models import Host
from nova_vp.db.paging import Listed, Page, bound
from nova_vp.db.records import (
    ActionRecord,
    ClassCount,
    ClassesOf,
    Escalation,
    HostAt,
    HostHeat,
    HostRecord,
    HostSummary,
    VpAt,
    VpHead,
)
from nova_vp.db.report_store import record_of
from nova_vp.db.serialization import unpack
from nova_vp.degradation import DIGITS, Degradation
from nova_vp.service.outage import Outage
from nova_vp.service_levels import Service

STAYS_ROUND = timedelta(days=1)
"""How far the end of a stay may lie behind what was true."""


class ReadApi:
    """The database named by `[database] connection`. Thread-safe; opens on first use."""

    def __init__(self, conf: cfg.ConfigOpts, outage: Outage | None = None) -> None:
        self._facade = open_facade(conf, outage)

    def _rows(self, question: Any, values: Mapping[str, Any]) -> Sequence[Any]:
        # A connection, not a session: this would take longer to set up than to answer.
        with self._facade.reader.connection.using(Context()) as connection:
            rows: Sequence[Any] = connection.execute(question, values).all()
        return rows

    def reach(self) -> None:
        """Raises `queries.ERRORS` if the database does not answer or lacks our tables."""
        self._rows(statements.ANY_HOST, {})

    # VPs

    def list_vps(self, wanted: VpFilter, page: Page) -> Listed[VpHead]:
        """Of hosts that claim the same VP the one that was heard last."""
        found = statements.VPS.read(self._rows, given(wanted), page)
        return Listed([_vp_head(row) for row in found.items], found.marker)

    def members_of(self, vps: Collection[tuple[str, str]]) -> list[VpHead]:
        """Of VPs of several servers, by project and group: all their servers, by UUID."""
        if not vps:
            return []
        projects, groups = ({one[at] for one in vps} for at in (0, 1))
        rows = self._rows(
            statements.MEMBERS, {"projects": sorted(projects), "groups": sorted(groups)}
        )
        heads = map(_vp_head, rows)
        return [head for head in heads if (head.project_id, head.group) in vps]

    def find_head(self, uuid: str) -> VpHead | None:
        """The same without its host's report, which would have to be unpacked."""
        rows = self._rows(statements.VP, {"uuid": uuid.lower()})
        return _vp_head(rows[0]) if rows else None

    def find_heads(self, uuids: Collection[str]) -> dict[str, VpHead]:
        """By UUID in lower case; those that run nowhere are absent."""
        wanted = sorted({uuid.lower() for uuid in uuids})
        rows = self._rows(statements.HEADS, {"uuids": wanted}) if wanted else []
        return {row.uuid: _vp_head(row) for row in rows}

    def find_vp(self, uuid: str) -> HostRecord | None:
        """The latest report of the host that has it; of several the one that was heard last."""
        rows = self._rows(statements.HOST_OF_VP, {"uuid": uuid.lower()})
        return record_of(rows[0]) if rows else None

    # hosts

    def list_hosts(
        self, wanted: HostFilter, page: Page, *, has_heat: bool = False
    ) -> Listed[HostSummary]:
        """`has_heat`: with LLC domains and NUMA nodes."""
        listed = statements.HOSTS_WITH_HEAT if has_heat else statements.HOSTS
        found = listed.read(self._rows, given(wanted), page)
        return Listed([_host_summary(row) for row in found.items], found.marker)

    def get_host(self, name: str) -> HostRecord | None:
        rows = self._rows(statements.HOST, {"name": name})
        return record_of(rows[0]) if rows else None

    def class_of(self, uuid: str) -> int | None:
        """Of a VP, when it was last measured undisturbed; None: it never was."""
        rows = self._rows(statements.CLASS_OF_VP, {"uuid": uuid.lower()})
        return int(rows[0].vp_class) if rows else None

    def classes_of(self, flavor: str, image: str) -> list[ClassCount]:
        """Of the VPs of one flavor and image, as `list_profiles` counts them."""
        found = self.list_profiles(flavor, image, Page("flavor", limit=1)).items
        return list(found[0].counts) if flavor and found else []

    def list_heat(self, after: str, limit: int) -> list[HostHeat]:
        """Of hosts in the order of their names, from the first after `after` on."""
        rows = self._rows(statements.HEAT, {"after": after, "limit": limit})
        return [HostHeat(r.host, aware_utc(r.received_at), read_heat(r.heat)) for r in rows]

    def get_hosts(self, names: Sequence[str]) -> list[HostRecord]:
        """Those of them that are known."""
        rows = self._rows(statements.HOSTS_BY_NAME, {"names": list(names)}) if names else []
        return [record_of(row) for row in rows]

    def count_hosts(self, wanted: HostFilter) -> int:
        values = bound(given(wanted))
        query = select(func.count()).select_from(Host.__table__)
        return int(self._rows(query.where(*statements.HOSTS.conditions(values)), values)[0][0])

    # history

    def host_history(self, host: str, begin: datetime, end: datetime, every: int) -> list[HostAt]:
        """One minute of `every`, the oldest first."""
        packed = self._packed(host, begin, end, every)
        return [HostAt(at, host, unpack(minute)) for at, minute in packed]

    def _packed(
        self, host: str, begin: datetime, end: datetime, every: int
    ) -> list[tuple[datetime, bytes]]:
        days = list(_days(naive_utc(begin), naive_utc(end)))
        values: dict[str, Any] = {"host": host, "every": every}
        for number, (day, first, last) in enumerate(days):
            values |= {f"day_{number}": day, f"first_{number}": first, f"last_{number}": last}
        rows = self._rows(statements.minutes(len(days), every > 1), values)
        return [(aware_at(day, minute), packed) for day, minute, packed in rows]

    def vp_history(self, uuid: str, begin: datetime, end: datetime, every: int) -> list[VpAt]:
        """Wherever it was then, the oldest first; of two hosts that tell of one minute both."""
        uuid = uuid.lower()
        found = [
            VpAt(at, host, vp)
            for host in self._stayed(uuid, begin, end)
            for at, packed in self._packed(host, begin, end, every)
            for vp in unpack(packed, uuid).vps
        ]
        return sorted(found, key=lambda one: (one.at, one.host))

    def owners_of(self, uuid: str) -> set[str]:
        """Projects that it was seen to belong to; empty: it was never seen."""
        rows = self._rows(statements.OWNERS, {"uuid": uuid.lower()})
        return {project_id for (project_id,) in rows}

    def _stayed(self, uuid: str, begin: datetime, end: datetime) -> list[str]:
        span = {"begin": naive_utc(begin - STAYS_ROUND), "end": naive_utc(end)}
        return [host for (host,) in self._rows(statements.STAYED, {"uuid": uuid, **span})]

    # actions

    def list_actions(self, wanted: ActionFilter, page: Page) -> Listed[ActionRecord]:
        uuid = wanted.uuid and wanted.uuid.lower()
        values = {**given(wanted), **given(wanted.span), "span": None, "uuid": uuid}
        found = statements.ACTIONS.read(self._rows, values, page)
        return Listed([_action(row) for row in found.items], found.marker)

    def vp_actions(
        self, uuid: str, project_id: str | None, span: Span, offset: int, limit: int
    ) -> list[ActionRecord]:
        """What concerns one VP, the newest first.

        `project_id`: only what was done, and while it belonged to that project.
        """
        values = bound({**given(span), "project_id": project_id})
        question = statements.actions_of_vp(frozenset(values))
        values |= {"uuid": uuid.lower(), "offset": offset, "limit": limit}
        return [_action(row) for row in self._rows(question, values)]

    def find_actions(self, id: str, host: str | None) -> list[ActionRecord]:
        """More than one: what one host calls an action, another may call one of its own."""
        wanted = {"id": id, "host": host}
        rows = statements.ACTIONS.read(self._rows, wanted, Page("host")).items
        return [_action(row) for row in rows]

    def names_of(self, uuids: Sequence[str]) -> dict[str, str]:
        """By UUID in lower case, of servers that run: as the host says that was heard last."""
        wanted = sorted({uuid.lower() for uuid in uuids})
        rows = self._rows(statements.NAMES, {"uuids": wanted}) if wanted else []
        return {uuid: name for uuid, name in rows}

    # escalations

    def list_escalations(
        self, host: str | None, status: str | None, page: Page
    ) -> Listed[Escalation]:
        """Without their attempts."""
        wanted = {"host": host, "status": status}
        found = statements.ESCALATIONS.read(self._rows, wanted, page)
        return Listed([escalation_of(row) for row in found.items], found.marker)

    # profiles

    def list_profiles(self, flavor: str | None, image: str | None, page: Page) -> Listed[ClassesOf]:
        """By flavor and image."""
        found = statements.PROFILES.read(self._rows, {"flavor": flavor, "image": image}, page)
        flavors = sorted({flavor for flavor, _ in found.items})
        rows = self._rows(statements.CLASSES_WITHIN, {"flavors": flavors}) if flavors else []
        counts = [ClassCount(*row) for row in rows]
        listed = [_classes_of(flavor, image, counts) for flavor, image in found.items]
        # The last server of one may be gone since the page was read.
        return Listed([one for one in listed if one.counts], found.marker)


def _days(begin: datetime, end: datetime) -> Iterator[tuple[date, int, int]]:
    """Each with its first minute and the one after its last."""
    day = begin.date()
    while day <= end.date():
        first = minute_of(begin) if day == begin.date() else 0
        yield day, first, minute_of(end) if day == end.date() else DAY_MINUTES
        day += timedelta(days=1)


def _vp_head(row: Any) -> VpHead:
    return VpHead(
        uuid=row.uuid,
        host=row.host,
        project_id=row.project_id,
        name=row.name,
        isolation=row.isolation,
        state=None if row.state == UNKNOWN else row.state,
        since=None if row.since == UNKNOWN else row.since,
        incomplete=row.incomplete or None,
        is_hurt=None if row.is_hurt == UNKNOWN else bool(row.is_hurt),
        # None: its host was forgotten a moment ago.
        received_at=aware_utc(row.received_at or datetime.min),
        group=row.vp_group,
        service=Service(row.service_class, row.latency_target_ms, row.latency_ms),
        degradation=_degradation(row),
    )


def _degradation(row: Any) -> Degradation | None:
    if row.degradation == UNKNOWN and not row.degraded_by:
        return None
    return Degradation(
        ratio=None if row.degradation == UNKNOWN else row.degradation / 10**DIGITS,
        kind=row.degraded_by or None,
        since=None if row.degraded_since == UNKNOWN else row.degraded_since,
        response=row.response or None,
    )


def _host_summary(row: Any) -> HostSummary:
    return HostSummary(
        host=row.host,
        mode=row.mode,
        mode_source=row.mode_source,
        received_at=aware_utc(row.received_at),
        counters=json.loads(row.counters),
        vps_count=row.vps_count,
        hurt_count=row.hurt_count,
        heat=read_heat(getattr(row, "heat", None)),
    )


def _action(row: Any) -> ActionRecord:
    """What is stored of it is what its last report had: a proposal is withdrawn by one without."""
    action = {**json.loads(row.detail), "result": row.result}
    return ActionRecord(row.host, aware_utc(row.at), row.project_id, action, row.accepted_by)


def _classes_of(flavor: str, image: str, counts: Sequence[ClassCount]) -> ClassesOf:
    own = (one for one in counts if (one.flavor, one.image) == (flavor, image))
    return ClassesOf(flavor, image, tuple(own))
