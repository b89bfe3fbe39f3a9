# SPDX-License-Identifier: Apache-2.0
"""What people set: of single servers, of the servers of one application, of hosts. Agents are
told all of it."""

from datetime import datetime

from sqlalchemy import BigInteger, Boolean, DateTime, Double, Index, SmallInteger, String, false
from sqlalchemy.orm import Mapped, mapped_column

from nova_vp.db.models.base import NAME, PROJECT, TABLE, Base


class ServerOverrideRow(Base):
    """What people have overridden of one server, whatever its flavor says."""

    __tablename__ = "vp_overrides"

    uuid: Mapped[str] = mapped_column(String(36), primary_key=True)
    project_id: Mapped[str] = mapped_column(String(64))
    mode: Mapped[str | None] = mapped_column(String(16))
    opt_out: Mapped[bool] = mapped_column(Boolean)
    priority: Mapped[int | None] = mapped_column(SmallInteger)
    exempt: Mapped[bool] = mapped_column(Boolean, server_default=false())
    by: Mapped[str] = mapped_column(String(255))
    """Who set it, or took it back: the id of a keystone user."""
    at: Mapped[datetime] = mapped_column(DateTime)
    """UTC, by the clock of the process that wrote it."""
    version: Mapped[int] = mapped_column(BigInteger, index=True)
    """The number of the write that left it so. A row with no override in it tells those who have
    read an earlier one that it was taken back."""
    latency_target_ms: Mapped[float | None] = mapped_column(Double)
    latency_percentile: Mapped[float | None] = mapped_column(Double)
    max_load: Mapped[float | None] = mapped_column(Double)


class OverrideChange(Base):
    """One change of a tenant's in the last hour: older ones go with the next change."""

    __tablename__ = "vp_override_changes"

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


class VersionGate(Base):
    """A row each for overrides, overlays and modes: see `gate.py`. Who writes one writes its row
    first, so that their numbers appear in their order."""

    __tablename__ = "vp_version_gate"

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
