# SPDX-License-Identifier: Apache-2.0
"""The types of columns, and what all tables share."""

from typing import Any

from sqlalchemy import LargeBinary, String, Text
from sqlalchemy.dialects import mysql
from sqlalchemy.orm import DeclarativeBase

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
