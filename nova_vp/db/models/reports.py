# SPDX-License-Identifier: Apache-2.0
"""What hosts report: the latest report of each, its servers, its history, its actions, and where
servers were.

A host has one row: its latest report as it came. What people search by (mode, when received) has a
column; the rest stays in one piece, since nothing ever asks the database for a part of it.
"""

from datetime import date, datetime

from sqlalchemy import BigInteger, Date, DateTime, Double, Index, SmallInteger, String
from sqlalchemy.orm import Mapped, mapped_column

from nova_vp.db.models.base import LONG_BYTES, LONG_TEXT, NAME, PROJECT, TABLE, Base


class Host(Base):
    __tablename__ = "hosts"

    host: Mapped[str] = mapped_column(NAME, primary_key=True)
    epoch: Mapped[int] = mapped_column(BigInteger)
    sequence: Mapped[int] = mapped_column(BigInteger)
    mode: Mapped[str] = mapped_column(String(16))
    mode_source: Mapped[str | None] = mapped_column(NAME)
    """On which level it is set, as `aggregate:NAME`; NULL: the agent does not say."""
    received_at: Mapped[datetime] = mapped_column(DateTime)
    """UTC, by the clock of the vp-scheduler that stored it."""
    packed: Mapped[bytes] = mapped_column(LONG_BYTES)
    """The report as it came, compressed: see `nova_vp.db.serialization`."""
    counters: Mapped[str] = mapped_column(LONG_TEXT)
    """What the report says of them, JSON: lists of hosts show it, and unpack no report."""
    heat: Mapped[str | None] = mapped_column(LONG_TEXT)
    """What it says of LLC domains and NUMA nodes, JSON, as `nova_vp.db.heat` has it."""
    vps_count: Mapped[int] = mapped_column(BigInteger)
    hurt_count: Mapped[int] = mapped_column(BigInteger)
    vps_mark: Mapped[int] = mapped_column(BigInteger)
    """Of what `vps` says of this host: a report that has the same mark changes nothing there."""
    proposals_mark: Mapped[int] = mapped_column(BigInteger, server_default="-1")
    """Of the proposals that it makes, in the same way; -1: it was never looked at."""

    __table_args__ = (
        Index("ix_hosts_received_at", "received_at"),
        Index("ix_hosts_mode", "mode", "host"),
        Index("ix_hosts_mode_source", "mode_source"),
        Index("ix_hosts_hurt_count", "hurt_count", "host"),
        Index("ix_hosts_vps_count", "vps_count", "host"),
        TABLE,
    )


class VpRow(Base):
    """What lists of VPs show and search by, as the latest report of their host has it.

    Two hosts may claim one VP: the one that it left does until its next report.
    """

    __tablename__ = "vps"

    uuid: Mapped[str] = mapped_column(String(36), primary_key=True)
    host: Mapped[str] = mapped_column(NAME, primary_key=True)
    project_id: Mapped[str] = mapped_column(PROJECT)
    name: Mapped[str] = mapped_column(NAME)
    isolation: Mapped[str] = mapped_column(String(16))
    state: Mapped[int] = mapped_column(SmallInteger)
    """-1: it was not classified."""
    since: Mapped[int] = mapped_column(BigInteger)
    """Seconds since 1970 by the clock of the host; -1: nobody knows."""
    incomplete: Mapped[str] = mapped_column(String(255))
    """Empty: its sample is complete."""
    is_hurt: Mapped[int] = mapped_column(SmallInteger)
    """1: by a neighbour; -1: nobody knows."""
    vp_group: Mapped[str] = mapped_column(PROJECT, server_default="")
    """Within its project, which servers are one VP; empty: it is alone."""
    service_class: Mapped[str] = mapped_column(String(16), server_default="")
    """Empty: it has none."""
    latency_target_ms: Mapped[float | None] = mapped_column(Double)
    latency_ms: Mapped[float | None] = mapped_column(Double)
    """As its application reported it last; null: it did not."""
    degradation: Mapped[int] = mapped_column(SmallInteger, server_default="-1")
    """Thousandths of its performance that it loses; -1: nobody knows."""
    degraded_by: Mapped[str] = mapped_column(String(32), server_default="")
    """The resource; empty: nothing degrades it, or nobody knows."""
    degraded_since: Mapped[int] = mapped_column(BigInteger, server_default="-1")
    """As `since`."""
    response: Mapped[str] = mapped_column(String(16), server_default="")
    """What is done about it, as `nova_vp.degradation` has it."""

    __table_args__ = (
        Index("ix_vps_host", "host", "uuid"),
        Index("ix_vps_degradation", "degradation", "uuid"),
        Index("ix_vps_project_id", "project_id", "uuid"),
        Index("ix_vps_name", "name", "uuid"),
        Index("ix_vps_state", "state", "uuid"),
        Index("ix_vps_since", "since", "uuid"),
        Index("ix_vps_is_hurt", "is_hurt", "uuid"),
        Index("ix_vps_vp_group", "vp_group", "project_id"),
        TABLE,
    )


class History(Base):
    """What a host's VPs did in one minute, packed: see `nova_vp.db.serialization`."""

    __tablename__ = "history"

    day: Mapped[date] = mapped_column(Date, primary_key=True)
    """First in the key, so that a day which is too old lies in one piece."""
    host: Mapped[str] = mapped_column(NAME, primary_key=True)
    minute: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    """Of that day, in UTC by the clock of the vp-scheduler that stored it."""
    packed: Mapped[bytes] = mapped_column(LONG_BYTES)


class StoredAction(Base):
    """One action of an agent, as it turned out: the ledger of what was done to whom and why."""

    __tablename__ = "actions"

    host: Mapped[str] = mapped_column(NAME, primary_key=True)
    id: Mapped[str] = mapped_column(NAME, primary_key=True)
    uuid: Mapped[str] = mapped_column(String(36))
    """The VP that it was done to."""
    project_id: Mapped[str] = mapped_column(String(64))
    at: Mapped[datetime] = mapped_column(DateTime)
    """UTC, by the clock of the host."""
    controller: Mapped[str] = mapped_column(String(255))
    reason: Mapped[str] = mapped_column(String(255))
    result: Mapped[str] = mapped_column(String(255))
    detail: Mapped[str] = mapped_column(LONG_TEXT)
    """The whole action as the report had it, JSON."""
    stored_at: Mapped[datetime] = mapped_column(DateTime, index=True)
    """UTC, by the clock of the vp-scheduler that stored its latest result."""
    accepted_by: Mapped[str | None] = mapped_column(String(255))
    """Id of the keystone user who accepted it through vp-api; null: nobody did."""

    __table_args__ = (
        Index("ix_actions_id", "id"),
        Index("ix_actions_at", "at"),
        Index("ix_actions_host_at", "host", "at"),
        Index("ix_actions_result_at", "result", "at"),
        Index("ix_actions_project_id_at", "project_id", "at"),
        TABLE,
    )


class ActionServer(Base):
    """That an action concerns a VP: it was done to it, or for it, or made it give way."""

    __tablename__ = "action_servers"

    host: Mapped[str] = mapped_column(NAME, primary_key=True)
    id: Mapped[str] = mapped_column(NAME, primary_key=True)
    uuid: Mapped[str] = mapped_column(String(36), primary_key=True)
    at: Mapped[datetime] = mapped_column(DateTime)
    """The action's."""
    project_id: Mapped[str] = mapped_column(PROJECT)
    """Of the VP; empty if its host no longer knew it."""
    stored_at: Mapped[datetime] = mapped_column(DateTime, index=True)
    """UTC, by the clock of the vp-scheduler that stored its latest result."""

    __table_args__ = (Index("ix_action_servers_uuid_at", "uuid", "at"), TABLE)


class Stay(Base):
    """That a VP was on a host, and when: by it a VP's history is found after it has moved."""

    __tablename__ = "stays"

    uuid: Mapped[str] = mapped_column(String(36), primary_key=True)
    host: Mapped[str] = mapped_column(NAME, primary_key=True)
    project_id: Mapped[str] = mapped_column(PROJECT, server_default="")
    first_at: Mapped[datetime] = mapped_column(DateTime)
    last_at: Mapped[datetime] = mapped_column(DateTime, index=True)
    """Brought up to date about once a day while it stays."""


class Profile(Base):
    """The class that a VP had when it was last measured undisturbed.

    One row per VP, so that none is counted twice when profiles are learned from them. Rows of VPs
    that are gone count no more: `vps` says who is there.
    """

    __tablename__ = "profiles"

    uuid: Mapped[str] = mapped_column(String(36), primary_key=True)
    flavor: Mapped[str] = mapped_column(String(255))
    image: Mapped[str] = mapped_column(String(36))
    """Empty where the agent does not know it."""
    vp_class: Mapped[int] = mapped_column(SmallInteger)
    project_id: Mapped[str] = mapped_column(PROJECT, server_default="")
    seen_at: Mapped[datetime] = mapped_column(DateTime, index=True)
    """Brought up to date about once a day while it runs."""

    __table_args__ = (
        Index("ix_profiles_flavor", "flavor", "image", "project_id", "vp_class", "uuid"),
        TABLE,
    )
