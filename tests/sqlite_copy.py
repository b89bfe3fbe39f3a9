# SPDX-License-Identifier: Apache-2.0
"""Backup and restore of a SQLite database that others have open."""

import sqlite3
from contextlib import closing
from pathlib import Path

from oslo_config import cfg


class DatabaseCopy:
    """Taken when made. A copy of the file would lack what is still in its write-ahead log."""

    def __init__(self, conf: cfg.ConfigOpts, folder: Path) -> None:
        self._file = Path(conf.database.connection.removeprefix("sqlite:///"))
        self._kept = folder / "copy.sqlite"
        _copy(self._file, self._kept)

    def restore(self) -> None:
        _copy(self._kept, self._file)


def _copy(source: Path, destination: Path) -> None:
    with closing(sqlite3.connect(source)) as old, closing(sqlite3.connect(destination)) as new:
        old.backup(new)
