# SPDX-License-Identifier: Apache-2.0
"""What servers are billed for, and where Nova said that they are."""

from datetime import datetime

from sqlalchemy import BigInteger, DateTime, Double, Index, String
from sqlalchemy.orm import Mapped, mapped_column

from nova_vp.db.models.base import NAME, PROJECT, TABLE, Base


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
