# SPDX-License-Identifier: Apache-2.0
"""Tables, and nothing that reads or writes them.

A host has one row: its latest report as it came. What people search by (mode, when received) has a
column; the rest stays one JSON text, since nothing ever asks the database for a part of it.
"""

from datetime import datetime
from typing import ClassVar

from sqlalchemy import BigInteger, DateTime, String, Text
from sqlalchemy.dialects import mysql
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

LONG_TEXT = Text().with_variant(mysql.LONGTEXT(), "mysql", "mariadb")
"""MySQL's TEXT ends at 64 KiB, a report of a full host does not."""

HOST_NAME = String(255).with_variant(
    mysql.VARCHAR(255, collation="utf8mb4_bin"), "mysql", "mariadb"
)
"""Otherwise MySQL would take `VP1` for `vp1`, and one report that can never be stored would keep
those of all hosts waiting."""


class Base(DeclarativeBase):
    __table_args__: ClassVar = {"mysql_engine": "InnoDB", "mysql_charset": "utf8mb4"}


class Host(Base):
    __tablename__ = "hosts"

    host: Mapped[str] = mapped_column(HOST_NAME, primary_key=True)
    epoch: Mapped[int] = mapped_column(BigInteger)
    sequence: Mapped[int] = mapped_column(BigInteger)
    mode: Mapped[str] = mapped_column(String(16))
    received_at: Mapped[datetime] = mapped_column(DateTime)
    """UTC, by the clock of the vp-scheduler that stored it."""
    report: Mapped[str] = mapped_column(LONG_TEXT)
