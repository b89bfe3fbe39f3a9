# SPDX-License-Identifier: Apache-2.0
"""The ledger of escalations and of the migrations that were tried for them."""

from datetime import datetime

from sqlalchemy import BigInteger, DateTime, Index, SmallInteger, String
from sqlalchemy.orm import Mapped, mapped_column

from nova_vp.db.models.base import LONG_TEXT, NAME, PROJECT, TABLE, Base


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
