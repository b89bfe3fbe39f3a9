# SPDX-License-Identifier: Apache-2.0
"""The registry of overlays: who has which, and which servers are in it; no row leaves here.

Every write takes a number first (`gate.py`): writes come one after another, so that limits hold
however many processes write at once.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from oslo_config import cfg
from sqlalchemy import (
    Integer,
    String,
    bindparam,
    delete,
    exists,
    false,
    func,
    insert,
    literal,
    select,
    true,
    union_all,
    update,
)
from sqlalchemy.orm import Session

from nova_vp.core.types.overlay import ArbitrationClass
from nova_vp.db import gate
from nova_vp.db.column_types import aware_utc, naive_utc
from nova_vp.db.facade import Context, open_facade
from nova_vp.db.models import OverlayRow, OverlayServer, VpRow
from nova_vp.db.paging import Listed, Page, Pages
from nova_vp.db.retry import after_conflict
from nova_vp.registered_overlay import RegisteredOverlay, group_overlay_id
from nova_vp.service.outage import Outage

IN_A_QUERY = 500
NO_NAME = "\x7f"
"""How no name begins: what a deleted overlay was called is free again."""


class Limits(NamedTuple):
    overlays: int
    """Of one project."""
    servers: int
    """In one overlay."""


class NameTaken(Exception):
    """The project has another overlay of that name."""


class TooManyOverlays(Exception):
    """The project has as many as it may have."""


class TooManyServers(Exception):
    """More than may be in one overlay."""


class InAnotherOverlay(Exception):
    """`servers` are in another one already."""

    def __init__(self, servers: Collection[str]) -> None:
        super().__init__(", ".join(sorted(servers)))
        self.servers = frozenset(servers)


class Member(NamedTuple):
    overlay_id: str
    project_id: str
    server_id: str


class Changed(NamedTuple):
    """What was written since a version."""

    version: int
    """Ask with this one next time."""
    overlays: list[RegisteredOverlay]
    """Deleted ones too, without servers."""


class ListedOverlay(NamedTuple):
    project_id: str
    name: str
    registered: RegisteredOverlay | None
    """None: it is the VP of that name."""


def _listed(*wanted: Any) -> Pages:
    """`wanted`: of both, of a table's columns."""
    overlay, vp = OverlayRow.__table__.c, VpRow.__table__.c
    registered = select(
        overlay.id, overlay.project_id, overlay.name, literal(0, Integer).label("is_group")
    ).where(overlay.is_deleted == false(), *(one(overlay) for one in wanted))
    groups = _groups().where(*(one(vp) for one in wanted))
    both = union_all(registered, groups).subquery()
    sorts = {"name": (both.c.project_id, both.c.name, both.c.is_group)}
    return Pages(select(both), {"project_id": true()}, sorts, both.c.id)


def _groups() -> Any:
    """VPs of several servers, without those whose servers are all in overlays by their own."""
    vp, member = VpRow.__table__.c, OverlayServer.__table__.c
    is_registered = exists(select(member.server_id).where(member.server_id == vp.uuid))
    return (
        select(
            literal("", String(36)).label("id"),
            vp.project_id,
            vp.vp_group.label("name"),
            literal(1, Integer).label("is_group"),
        )
        .where(vp.vp_group != "", vp.project_id != "", ~is_registered)
        .distinct()
    )


_LISTED = _listed()
_LISTED_OF_PROJECT = _listed(lambda table: table.project_id == bindparam("project_id"))


class OverlayStore:
    """The overlays in `[database] connection`. Thread-safe; opens on first use."""

    def __init__(self, conf: cfg.ConfigOpts, outage: Outage | None = None) -> None:
        self._facade = open_facade(conf, outage)

    @after_conflict
    def create(
        self,
        id: str,
        project_id: str,
        name: str,
        servers: Collection[str],
        *,
        limits: Limits,
        by: str,
        now: datetime,
        **fields: Any,
    ) -> RegisteredOverlay:
        """`fields`: priority, arbitration, target, target_unit. Raises NameTaken, TooManyOverlays,
        TooManyServers and InAnotherOverlay."""
        row = OverlayRow
        with self._facade.writer.using(Context()) as session:
            version = gate.next_version(session, gate.OVERLAYS, now)
            _check_name(session, project_id, name, None)
            owned = select(func.count()).where(row.project_id == project_id)
            if session.scalar(owned.where(row.is_deleted == false())) >= limits.overlays:
                raise TooManyOverlays(project_id)
            written = {"by": by, "at": naive_utc(now), "version": version, "is_deleted": False}
            values = {"id": id, "project_id": project_id, "name": name, **fields, **written}
            session.execute(insert(row).values(_columns(values)))
            _add(session, id, servers, limits.servers, now)
            return _get(session, id)

    def get(self, id: str) -> RegisteredOverlay | None:
        with self._facade.reader.using(Context()) as session:
            return next(iter(_list(session, row_is(id))), None)

    def listed(self, project_id: str | None, page: Page) -> Listed[ListedOverlay]:
        """Of a project, or all: those that are registered, and VPs of several servers, which are
        one each. By project and name."""

        def run(question: Any, values: Mapping[str, Any]) -> Sequence[Any]:
            with self._facade.reader.connection.using(Context()) as connection:
                rows: Sequence[Any] = connection.execute(question, values).all()
            return rows

        pages = _LISTED if project_id is None else _LISTED_OF_PROJECT
        found = pages.read(run, {"project_id": project_id}, page)
        with self._facade.reader.using(Context()) as session:
            ids = {row.id for row in found.items if row.id}
            of_ids = (_list(session, row_is_one_of(part)) for part in _parts(ids))
            known = {one.id: one for part in of_ids for one in part}
        listed = [
            ListedOverlay(row.project_id, row.name, known.get(row.id))
            for row in found.items
            if row.is_group or row.id in known  # Else it was deleted a moment ago.
        ]
        return Listed(listed, found.marker)

    def find_group(self, id: str, project_id: str | None) -> tuple[str, str] | None:
        """The project and the name of the VP whose overlay has this id; `project_id`: only one of
        that project."""
        query = _groups().with_only_columns(VpRow.project_id, VpRow.vp_group)
        if project_id is not None:
            query = query.where(VpRow.project_id == project_id)
        with self._facade.reader.using(Context()) as session:
            found = (tuple(row) for row in session.execute(query))
            return next((one for one in found if group_overlay_id(*one) == id.lower()), None)

    def unseen(self, added_before: datetime, after: str, most: int) -> Sequence[Member]:
        """Servers in overlays that no host reports: they are stopped, on a host without an agent,
        or gone. `after`: whose ids are larger."""
        member, overlay, vp = OverlayServer, OverlayRow, VpRow
        found = (
            select(member.overlay_id, overlay.project_id, member.server_id)
            .join(overlay, overlay.id == member.overlay_id)
            .where(member.added_at < naive_utc(added_before), member.server_id > after)
            .where(~exists(select(vp.uuid).where(vp.uuid == member.server_id)))
            .order_by(member.server_id)
            .limit(most)
        )
        with self._facade.reader.using(Context()) as session:
            return [Member(*row) for row in session.execute(found)]

    def of_servers(self, uuids: Iterable[str]) -> tuple[int, dict[str, RegisteredOverlay]]:
        """The version of the latest write, and by server in which one it is; others are absent."""
        asked = {one.lower() for one in uuids}
        with self._facade.reader.using(Context()) as session:
            # Before the rows, so that what is written meanwhile is told again later.
            version = gate.version_of(session, gate.OVERLAYS)
            ids = set(_overlays_of(session, asked).values())
            found = [one for part in _parts(ids) for one in _list(session, row_is_one_of(part))]
        return version, {server: one for one in found for server in one.servers & asked}

    @after_conflict
    def change(self, id: str, *, by: str, now: datetime, **fields: Any) -> RegisteredOverlay | None:
        """None: there is none. Raises NameTaken."""
        with self._facade.writer.using(Context()) as session:
            version = gate.next_version(session, gate.OVERLAYS, now)
            if (stands := _find(session, id)) is None:
                return None
            if "name" in fields:
                _check_name(session, stands.project_id, fields["name"], id)
            _touch(session, id, version, by, now, **fields)
            return _get(session, id)

    @after_conflict
    def add_servers(
        self, id: str, servers: Collection[str], *, most: int, by: str, now: datetime
    ) -> RegisteredOverlay | None:
        """Those that it has already stay. None: there is none. Raises TooManyServers and
        InAnotherOverlay."""
        with self._facade.writer.using(Context()) as session:
            version = gate.next_version(session, gate.OVERLAYS, now)
            if _find(session, id) is None:
                return None
            _add(session, id, servers, most, now)
            _touch(session, id, version, by, now)
            return _get(session, id)

    @after_conflict
    def remove_servers(
        self, id: str, servers: Collection[str], *, by: str, now: datetime
    ) -> RegisteredOverlay | None:
        """Those that it does not have are of no matter. None: there is none."""
        member = OverlayServer
        with self._facade.writer.using(Context()) as session:
            version = gate.next_version(session, gate.OVERLAYS, now)
            if _find(session, id) is None:
                return None
            gone = delete(member).where(member.overlay_id == id)
            for part in _parts({one.lower() for one in servers}):
                session.execute(gone.where(member.server_id.in_(part)))
            _touch(session, id, version, by, now)
            return _get(session, id)

    @after_conflict
    def delete(self, id: str, *, by: str, now: datetime) -> bool:
        """Whether there was one."""
        with self._facade.writer.using(Context()) as session:
            version = gate.next_version(session, gate.OVERLAYS, now)
            if _find(session, id) is None:
                return False
            session.execute(delete(OverlayServer).where(OverlayServer.overlay_id == id))
            _touch(session, id, version, by, now, name=NO_NAME + id, is_deleted=True)
            return True

    def changed_since(self, version: int) -> Changed:
        # The version before the rows: what is written meanwhile is given once more, not missed.
        with self._facade.reader.using(Context()) as session:
            newest = gate.version_of(session, gate.OVERLAYS)
            is_news = OverlayRow.version > version
            return Changed(newest, _list(session, is_news) if newest != version else [])

    @after_conflict
    def outbid(self, version: int, now: datetime) -> None:
        """As of `OverrideStore`."""
        with self._facade.writer.using(Context()) as session:
            gate.outbid(session, gate.OVERLAYS, version, now)


def row_is(id: str) -> Any:
    return row_is_one_of([id.lower()])


def row_is_one_of(ids: Collection[str]) -> Any:
    return OverlayRow.id.in_(ids) & (OverlayRow.is_deleted == false())


def _find(session: Session, id: str) -> OverlayRow | None:
    return session.scalar(select(OverlayRow).where(row_is(id)))


def _get(session: Session, id: str) -> RegisteredOverlay:
    session.expire_all()
    [found] = _list(session, OverlayRow.id == id)
    return found


def _list(session: Session, *wanted: Any) -> list[RegisteredOverlay]:
    row = OverlayRow
    rows = session.scalars(select(row).where(*wanted).order_by(row.project_id, row.name)).all()
    servers: dict[str, set[str]] = defaultdict(set)
    member = OverlayServer
    for part in _parts({one.id for one in rows}):
        found = select(member.overlay_id, member.server_id).where(member.overlay_id.in_(part))
        for overlay_id, server_id in session.execute(found):
            servers[overlay_id].add(server_id)
    return [_registered(one, servers[one.id]) for one in rows]


def _check_name(session: Session, project_id: str, name: str, besides: str | None) -> None:
    row = OverlayRow
    taken = select(row.id).where(row.project_id == project_id, row.name == name)
    if session.scalar(taken) not in (None, besides):
        raise NameTaken(name)


def _add(session: Session, id: str, servers: Collection[str], most: int, now: datetime) -> None:
    asked = {one.lower() for one in servers}
    stands = _overlays_of(session, asked)
    if others := {server for server, overlay_id in stands.items() if overlay_id != id}:
        raise InAnotherOverlay(others)
    new = sorted(asked - stands.keys())
    has = session.scalar(select(func.count()).where(OverlayServer.overlay_id == id)) or 0
    if new and has + len(new) > most:
        raise TooManyServers(id)
    rows = [{"server_id": one, "overlay_id": id, "added_at": naive_utc(now)} for one in new]
    if rows:
        session.execute(insert(OverlayServer), rows)


def _overlays_of(session: Session, servers: Iterable[str]) -> dict[str, str]:
    member = OverlayServer
    return {
        server_id: overlay_id
        for part in _parts(servers)
        for server_id, overlay_id in session.execute(
            select(member.server_id, member.overlay_id).where(member.server_id.in_(part))
        )
    }


def _touch(session: Session, id: str, version: int, by: str, now: datetime, **fields: Any) -> None:
    values = _columns({**fields, "by": by, "at": naive_utc(now), "version": version})
    session.execute(update(OverlayRow).where(OverlayRow.id == id.lower()).values(values))


def _columns(values: dict[str, Any]) -> dict[str, Any]:
    arbitration = values.get("arbitration")
    return values if arbitration is None else {**values, "arbitration": arbitration.value}


def _parts(values: Iterable[str]) -> Iterable[list[str]]:
    """In one order, so that two processes never wait for each other's rows."""
    listed = sorted(values)
    return (listed[begin : begin + IN_A_QUERY] for begin in range(0, len(listed), IN_A_QUERY))


def _registered(row: OverlayRow, servers: set[str]) -> RegisteredOverlay:
    return RegisteredOverlay(
        id=row.id,
        project_id=row.project_id,
        name=row.name,
        servers=frozenset(servers),
        priority=row.priority,
        arbitration=ArbitrationClass(row.arbitration),
        target=row.target,
        target_unit=row.target_unit,
        by=row.by,
        at=aware_utc(row.at),
        version=row.version,
        is_deleted=row.is_deleted,
    )
