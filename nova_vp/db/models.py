# SPDX-License-Identifier: Apache-2.0
"""Tables, and nothing that reads or writes them.

A host has one row: its latest report as it came. What people search by (mode, when received) has a
column; the rest stays in one piece, since nothing ever asks the database for a part of it.
"""

from datetime import date, datetime
from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    Date,
    DateTime,
    Double,
    Index,
    LargeBinary,
    SmallInteger,
    String,
    Text,
    false,
)
from sqlalchemy.dialects import mysql
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

LONG_TEXT = Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
"""MySQL's TEXT ends at 64 KiB, a report of a full host does not."""

LONG_BYTES = LargeBinary().with_variant(mysql.LONGBLOB(), "mysql", "mariadb")

NAME = String(255).with_variant(mysql.VARCHAR(255, collation="utf8mb4_bin"), "mysql", "mariadb")
"""Otherwise MySQL would take `VP1` for `vp1`, and one report that can never be stored would keep
those of all hosts waiting."""

PROJECT = String(64).with_variant(mysql.VARCHAR(64, collation="utf8mb4_bin"), "mysql", "mariadb")
"""Who owns a row: no two projects are alike."""

KEY = String(64).with_variant(mysql.VARCHAR(64, collation="utf8mb4_bin"), "mysql", "mariadb")
"""Base64 tells capital letters from small ones."""

TABLE = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}


class Base(DeclarativeBase):
    __table_args__: Any = (TABLE,)


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

    __table_args__ = (
        Index("ix_vps_host", "host", "uuid"),
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


class EscalationRow(Base):
    """What an agent asked the cluster for, and how far that is. See `escalation_status`."""

    __tablename__ = "escalations"

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    host: Mapped[str] = mapped_column(NAME)
    status: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str] = mapped_column(LONG_TEXT)
    """A sentence or two for people."""
    message: Mapped[str] = mapped_column(LONG_TEXT)
    """As the agent sent it, per `wire.ESCALATION_SCHEMA`."""
    victim: Mapped[str] = mapped_column(String(36), server_default="")
    project_id: Mapped[str] = mapped_column(PROJECT, server_default="")
    """Of the victim; empty if the message does not say."""
    choice: Mapped[str | None] = mapped_column(LONG_TEXT)
    """JSON: whom to move and what spoke against each of the others."""
    received_at: Mapped[datetime] = mapped_column(DateTime)
    """All moments are UTC by the clock of the vp-scheduler that wrote them."""
    accepted_at: Mapped[datetime | None] = mapped_column(DateTime)
    accepted_by: Mapped[str | None] = mapped_column(String(255))
    """The id of a keystone user, or who ran vp-manage."""
    changed_at: Mapped[datetime] = mapped_column(DateTime)
    not_before: Mapped[datetime | None] = mapped_column(DateTime)
    owner: Mapped[str | None] = mapped_column(String(255))
    """The worker that is at it. It stays after a crash; who takes over watches `version`."""
    version: Mapped[int] = mapped_column(BigInteger)
    """One more with every write: who writes names the one that he has read."""
    settled_at: Mapped[datetime | None] = mapped_column(DateTime, index=True)
    """Nothing is left to do: it has ended and its agent was told."""

    __table_args__ = (
        Index("ix_escalations_received_at", "received_at"),
        Index("ix_escalations_status", "status", "received_at"),
        Index("ix_escalations_host", "host", "received_at"),
        TABLE,
    )


class MigrationRow(Base):
    """One attempt to have a guest migrated for an escalation."""

    __tablename__ = "escalation_migrations"

    escalation_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    attempt: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    server: Mapped[str] = mapped_column(String(36))
    name: Mapped[str] = mapped_column(String(255))
    project_id: Mapped[str] = mapped_column(String(64))
    role: Mapped[str] = mapped_column(String(16))
    memory_kib: Mapped[int] = mapped_column(BigInteger)
    timeout_s: Mapped[int] = mapped_column(BigInteger)
    source_host: Mapped[str] = mapped_column(NAME)
    dest_host: Mapped[str | None] = mapped_column(NAME)
    status: Mapped[str] = mapped_column(String(16))
    detail: Mapped[str] = mapped_column(LONG_TEXT)
    nova_floor: Mapped[int | None] = mapped_column(BigInteger)
    """Ours has a higher id: the highest that Nova knew for that server before it was asked. No
    clock is needed to tell ours from an older one."""
    nova_id: Mapped[int | None] = mapped_column(BigInteger)
    nova_uuid: Mapped[str | None] = mapped_column(String(36))
    nova_status: Mapped[str | None] = mapped_column(String(36))
    asked: Mapped[int] = mapped_column(SmallInteger)
    """How often Nova was asked."""
    started_at: Mapped[datetime] = mapped_column(DateTime, index=True)
    requested_at: Mapped[datetime | None] = mapped_column(DateTime)
    abort_asked_at: Mapped[datetime | None] = mapped_column(DateTime)
    ended_at: Mapped[datetime | None] = mapped_column(DateTime)
    told_at: Mapped[datetime | None] = mapped_column(DateTime)
    """When its agent was told how it ended, or nobody was there to be told for too long."""

    __table_args__ = (
        Index("ix_escalation_migrations_server", "server", "started_at"),
        TABLE,
    )


class EscalationGate(Base):
    """One row. Who begins an attempt writes it first, so that budgets are checked one by one."""

    __tablename__ = "escalation_gate"

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    begun: Mapped[int] = mapped_column(BigInteger)
    """Attempts ever begun."""


class ServerOrdersRow(Base):
    """What people have ordered of one server, whatever its flavor says."""

    __tablename__ = "vp_orders"

    uuid: Mapped[str] = mapped_column(String(36), primary_key=True)
    project_id: Mapped[str] = mapped_column(String(64))
    mode: Mapped[str | None] = mapped_column(String(16))
    opt_out: Mapped[bool] = mapped_column(Boolean)
    priority: Mapped[int | None] = mapped_column(SmallInteger)
    exempt: Mapped[bool] = mapped_column(Boolean, server_default=false())
    by: Mapped[str] = mapped_column(String(255))
    """Who ordered it, or took it back: the id of a keystone user."""
    at: Mapped[datetime] = mapped_column(DateTime)
    """UTC, by the clock of the process that wrote it."""
    version: Mapped[int] = mapped_column(BigInteger, index=True)
    """The number of the write that left it so. A row with no order in it tells those who have read
    an earlier one that it was taken back."""
    latency_target_ms: Mapped[float | None] = mapped_column(Double)
    latency_percentile: Mapped[float | None] = mapped_column(Double)
    max_load: Mapped[float | None] = mapped_column(Double)


class OrdersChange(Base):
    """One change of a tenant's in the last hour: older ones go with the next change."""

    __tablename__ = "vp_orders_changes"

    version: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    uuid: Mapped[str] = mapped_column(String(36), index=True)
    at: Mapped[datetime] = mapped_column(DateTime, index=True)
    """UTC, by the clock of the process that wrote it."""


class OverlayRow(Base):
    """One overlay: what its project says of an application of several servers."""

    __tablename__ = "overlays"

    id: Mapped[str] = mapped_column(String(36), primary_key=True)
    project_id: Mapped[str] = mapped_column(PROJECT)
    name: Mapped[str] = mapped_column(NAME)
    """Within its project, of one overlay; once it is deleted, what none is called."""
    priority: Mapped[int] = mapped_column(SmallInteger)
    arbitration: Mapped[str] = mapped_column(String(16))
    target: Mapped[float | None] = mapped_column(Double)
    target_unit: Mapped[str] = mapped_column(String(32))
    by: Mapped[str] = mapped_column(String(255))
    """Who changed it last: the id of a keystone user."""
    at: Mapped[datetime] = mapped_column(DateTime)
    """UTC, by the clock of the process that wrote it."""
    version: Mapped[int] = mapped_column(BigInteger)
    """The number of the write that left it and its servers so."""
    is_deleted: Mapped[bool] = mapped_column(Boolean)
    """The row tells those who have read an earlier one."""

    __table_args__ = (
        Index("ix_overlays_project_id", "project_id", "name", unique=True),
        Index("ix_overlays_version", "version"),
        Index("ix_overlays_is_deleted", "is_deleted", "at"),
        TABLE,
    )


class OverlayServer(Base):
    """That a server is in an overlay: in one at most."""

    __tablename__ = "overlay_servers"

    server_id: Mapped[str] = mapped_column(String(36), primary_key=True)
    overlay_id: Mapped[str] = mapped_column(String(36))
    added_at: Mapped[datetime] = mapped_column(DateTime)
    """UTC, by the clock of the process that wrote it."""

    __table_args__ = (Index("ix_overlay_servers_overlay_id", "overlay_id", "server_id"), TABLE)


class OrdersGate(Base):
    """A row each for orders, overlays and modes: see `gate.py`. Who writes one writes its row
    first, so that their numbers appear in their order."""

    __tablename__ = "vp_orders_gate"

    id: Mapped[int] = mapped_column(SmallInteger, primary_key=True, autoincrement=False)
    version: Mapped[int] = mapped_column(BigInteger)
    """Of the latest write: larger than any before, also than those that a lost database gave."""


class ModeRow(Base):
    """The mode that is set for the cloud or for one host aggregate."""

    __tablename__ = "modes"

    level: Mapped[str] = mapped_column(String(16), primary_key=True)
    """`nova_vp.core.types.mode_levels.ModeLevel`."""
    name: Mapped[str] = mapped_column(NAME, primary_key=True)
    """Of the aggregate; empty for the cloud."""
    mode: Mapped[str] = mapped_column(String(16))
    by: Mapped[str] = mapped_column(String(255))
    """The id of a keystone user."""
    at: Mapped[datetime] = mapped_column(DateTime)
    """UTC, by the clock of the process that wrote it."""


class UsageRow(Base):
    """All that one host has counted of one server in one hour with one attribution."""

    __tablename__ = "usage_records"

    uuid: Mapped[str] = mapped_column(String(36), primary_key=True)
    hour: Mapped[datetime] = mapped_column(DateTime, primary_key=True)
    """When it began, UTC by the clock of the host."""
    host: Mapped[str] = mapped_column(NAME, primary_key=True)
    meter: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    """The epoch in which the agent began to count: see `nova_vp.wire.usage`."""
    attribution: Mapped[str] = mapped_column(String(16), primary_key=True)
    project_id: Mapped[str] = mapped_column(PROJECT)
    booked_s: Mapped[float] = mapped_column(Double)
    """Amounts as of `nova_vp.core.types.usage`."""
    over_s: Mapped[float] = mapped_column(Double)
    permit_misses: Mapped[float] = mapped_column(Double)
    pollution_misses: Mapped[float] = mapped_column(Double)
    sure_misses: Mapped[float] = mapped_column(Double)
    cpu_taken_core_s: Mapped[float] = mapped_column(Double)

    __table_args__ = (
        Index("ix_usage_records_hour", "hour"),
        Index("ix_usage_records_project_id", "project_id", "uuid", "hour"),
        TABLE,
    )


class ServerSighting(Base):
    """That Nova said of a server that it is on a host: what its host counts of it is billed."""

    __tablename__ = "server_sightings"

    uuid: Mapped[str] = mapped_column(String(36), primary_key=True)
    host: Mapped[str] = mapped_column(NAME, primary_key=True)
    project_id: Mapped[str] = mapped_column(PROJECT)
    seen_at: Mapped[datetime] = mapped_column(DateTime, index=True)
    """UTC, by the clock of the vp-scheduler that asked."""


class BusKeyRow(Base):
    """A public key that somebody on the bus signs with, or has signed with."""

    __tablename__ = "bus_keys"

    sender: Mapped[str] = mapped_column(NAME, primary_key=True)
    """As `vp-agent/HOST`: `nova_vp.signing.senders`."""
    public_key: Mapped[str] = mapped_column(KEY, primary_key=True)
    """32 bytes of Ed25519, Base64."""
    created_at: Mapped[datetime] = mapped_column(DateTime)
    retired_at: Mapped[datetime | None] = mapped_column(DateTime)
    """UTC; None: in use."""
