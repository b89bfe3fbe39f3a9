# SPDX-License-Identifier: Apache-2.0
"""What `nova_vp.db.read_api` asks of the database, put together once; nothing here runs it.

By tables, not by way of the ORM, and with parameters: to put such a question together would take
longer than to answer it. Every one is answered from a range of an index, however large the cloud.
"""

from functools import cache
from typing import Any

from sqlalchemy import Integer, and_, bindparam, case, exists, func, or_, select

from nova_vp.action_results import NEVER_DONE
from nova_vp.db.models import (
    ActionServer,
    EscalationRow,
    History,
    Host,
    Profile,
    Stay,
    StoredAction,
    VpRow,
)
from nova_vp.db.paging import Pages
from nova_vp.newcomer_class import RANKS

_vp, _host, _history = VpRow.__table__.c, Host.__table__.c, History.__table__.c
_stay, _profile = Stay.__table__.c, Profile.__table__.c
_action, _server = StoredAction.__table__.c, ActionServer.__table__.c
_escalation = EscalationRow.__table__.c

# VPs

_HEARD = (
    select(_host.received_at)
    .where(_host.host == _vp.host)
    .correlate(VpRow.__table__)
    .scalar_subquery()
)


def _is_claimed_later() -> Any:
    """By another host, that is: this one has not noticed yet that the VP left it."""
    other, other_host = VpRow.__table__.alias(), Host.__table__.alias()
    is_later = (other_host.c.received_at > _HEARD) | (
        (other_host.c.received_at == _HEARD) & (other.c.host < _vp.host)
    )
    return exists(
        select(other.c.uuid)
        .join(other_host, other_host.c.host == other.c.host)
        .where(other.c.uuid == _vp.uuid, other.c.host != _vp.host, is_later)
        .correlate(VpRow.__table__)
    )


VPS = Pages(
    select(VpRow.__table__, _HEARD.label("received_at")).where(~_is_claimed_later()),
    filters={
        **{name: _vp[name] == bindparam(name) for name in ("project_id", "host", "name", "state")},
        "is_hurt": _vp.is_hurt == bindparam("is_hurt"),
        "heard_since": bindparam("heard_since", type_=_host.received_at.type) <= _HEARD,
    },
    sorts={
        "server_id": (_vp.uuid,),
        "name": (_vp.name, _vp.uuid),
        "since": (_vp.since, _vp.uuid),
        "state": (_vp.state, _vp.uuid),
        "degradation": (_vp.degradation, _vp.uuid),
        "host": (_vp.host, _vp.uuid),
    },
    id=_vp.uuid,
)
MEMBERS = (
    select(VpRow.__table__, _HEARD.label("received_at"))
    .where(
        _vp.vp_group.in_(bindparam("groups", expanding=True)),
        _vp.project_id.in_(bindparam("projects", expanding=True)),
        ~_is_claimed_later(),
    )
    .order_by(_vp.uuid)
)
VP = select(VpRow.__table__, _HEARD.label("received_at")).where(
    _vp.uuid == bindparam("uuid"), ~_is_claimed_later()
)
HEADS = select(VpRow.__table__, _HEARD.label("received_at")).where(
    _vp.uuid.in_(bindparam("uuids", expanding=True)), ~_is_claimed_later()
)
NAMES = select(_vp.uuid, _vp.name).where(
    _vp.uuid.in_(bindparam("uuids", expanding=True)), ~_is_claimed_later()
)

# hosts

_LISTED = (
    *(_host.host, _host.mode, _host.mode_source, _host.received_at),
    *(_host.counters, _host.vps_count, _host.hurt_count),
)
_HOST_FILTERS = {
    "mode": _host.mode == bindparam("mode"),
    "heard_since": _host.received_at >= bindparam("heard_since"),
    "not_heard_since": _host.received_at < bindparam("not_heard_since"),
}
_HOST_SORTS = {
    "name": (_host.host,),
    "hurt_count": (_host.hurt_count, _host.host),
    "vps_count": (_host.vps_count, _host.host),
}
HOSTS = Pages(select(*_LISTED), _HOST_FILTERS, _HOST_SORTS, _host.host)
HOSTS_WITH_HEAT = Pages(select(*_LISTED, _host.heat), _HOST_FILTERS, _HOST_SORTS, _host.host)
CLASS_OF_VP = select(_profile.vp_class).where(_profile.uuid == bindparam("uuid"))
HEAT = (
    select(_host.host, _host.received_at, _host.heat)
    .where(_host.host > bindparam("after"))
    .order_by(_host.host)
    .limit(bindparam("limit"))
)
_RECORDS = select(
    *(_host.host, _host.epoch, _host.sequence),
    *(_host.mode, _host.received_at, _host.packed),
)
ANY_HOST = select(_host.host).order_by(_host.host).limit(1)
HOST = _RECORDS.where(_host.host == bindparam("name"))
HOSTS_BY_NAME = _RECORDS.where(_host.host.in_(bindparam("names", expanding=True)))
HOST_OF_VP = (
    _RECORDS.join(VpRow.__table__, _vp.host == _host.host)
    .where(_vp.uuid == bindparam("uuid"))
    .order_by(_host.received_at.desc(), _host.host)
    .limit(1)
)

# history


@cache
def minutes(days: int, is_thinned: bool) -> Any:
    """With `day_N`, `first_N`, `last_N` for each of the days, and `every` if it is thinned.

    Day by day: a database reads what lies within a range of a key only if all of the key before
    it is given, and otherwise every host's rows of those days.
    """
    ranges = [
        and_(
            _history.day == bindparam(f"day_{number}"),
            _history.minute >= bindparam(f"first_{number}"),
            _history.minute < bindparam(f"last_{number}"),
        )
        for number in range(days)
    ]
    query = select(_history.day, _history.minute, _history.packed).where(
        _history.host == bindparam("host"), or_(*ranges)
    )
    if is_thinned:
        query = query.where(_history.minute % bindparam("every") == 0)
    return query.order_by(_history.day, _history.minute)


OWNERS = select(_stay.project_id).where(_stay.uuid == bindparam("uuid"))
STAYED = select(_stay.host).where(
    _stay.uuid == bindparam("uuid"),
    _stay.last_at >= bindparam("begin"),
    _stay.first_at < bindparam("end"),
)

# actions

_ACTION_FILTERS = ("host", "id", "project_id", "result")
ACTIONS = Pages(
    select(StoredAction.__table__),
    filters={
        "begin": _action.at >= bindparam("begin"),
        "end": _action.at < bindparam("end"),
        **{name: _action[name] == bindparam(name) for name in _ACTION_FILTERS},
        "uuid": and_(
            _action.host == _server.host,
            _action.id == _server.id,
            _server.uuid == bindparam("uuid"),
        ),
    },
    sorts={"at": (_action.at, _action.host, _action.id), "host": (_action.host, _action.id)},
    id=_action.id,
)


_OF_VP = {
    "begin": _server.at >= bindparam("begin"),
    "end": _server.at < bindparam("end"),
    "project_id": and_(
        _server.project_id == bindparam("project_id"), _action.result.not_in(NEVER_DONE)
    ),
}


@cache
def actions_of_vp(given: frozenset[str]) -> Any:
    """The newest first. With a `project_id` only what was done, and while it belonged to that."""
    return (
        select(StoredAction.__table__)
        .join(ActionServer.__table__, and_(_server.host == _action.host, _server.id == _action.id))
        .where(
            _server.uuid == bindparam("uuid"), *(_OF_VP[name] for name in _OF_VP if name in given)
        )
        .order_by(_server.at.desc(), _server.host.desc(), _server.id.desc())
        .offset(bindparam("offset", type_=Integer))
        .limit(bindparam("limit", type_=Integer))
    )


# escalations

ESCALATIONS = Pages(
    select(EscalationRow.__table__),
    filters={name: _escalation[name] == bindparam(name) for name in ("host", "status")},
    sorts={"received_at": (_escalation.received_at, _escalation.id)},
    id=_escalation.id,
)

# profiles

_RUNS = exists(select(_vp.uuid).where(_vp.uuid == _profile.uuid).correlate(Profile.__table__))


def _classes_by(*kind: Any, of: Any = _RUNS) -> Any:
    """For each class of a kind: its running VPs, and the projects that vote for it.

    A project's vote is the class of its middle VP by cache pressure, as `median_class` has it.
    """
    pressure = case(RANKS, value=_profile.vp_class)
    owned = (*kind, _profile.project_id)
    vps = (
        select(
            *(*kind, _profile.vp_class),
            func.row_number().over(partition_by=owned, order_by=pressure).label("rank"),
            func.count().over(partition_by=owned).label("owned"),
        )
        .where(of)
        .subquery()
    )
    is_vote = (2 * vps.c.rank).in_((vps.c.owned + 1, vps.c.owned + 2))
    named = [vps.c[column.key] for column in (*kind, _profile.vp_class)]
    return select(*named, func.count(), func.count(case((is_vote, 1)))).group_by(*named)


PROFILES = Pages(
    select(_profile.flavor, _profile.image).where(_RUNS).group_by(_profile.flavor, _profile.image),
    filters={name: _profile[name] == bindparam(name) for name in ("flavor", "image")},
    sorts={"flavor": (_profile.flavor, _profile.image)},
)
CLASSES = _classes_by(_profile.flavor, _profile.image)
CLASSES_OF_FLAVORS = _classes_by(_profile.flavor)
CLASSES_WITHIN = _classes_by(
    *(_profile.flavor, _profile.image),
    of=and_(_RUNS, _profile.flavor.in_(bindparam("flavors", expanding=True))),
)
