# SPDX-License-Identifier: Apache-2.0
"""A private MariaDB for tests: own folder and socket, no port, gone afterwards."""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pymysql

START_DEADLINE_S = 60.0
# One user without a password: the socket lies in a folder that nobody else can enter.
INSTALL = (
    "mysql_install_db",
    "--no-defaults",
    "--auth-root-authentication-method=normal",
    "--skip-test-db",
    "--user=root",
)
SERVER = (
    "mariadbd",
    "--no-defaults",
    "--user=root",
    "--skip-networking",
    "--skip-log-bin",
    "--performance-schema=off",
)
# What a test leaves behind need not survive a crash of the machine.
QUICK = (
    "--innodb-flush-log-at-trx-commit=0",
    "--innodb-doublewrite=0",
    "--innodb-buffer-pool-size=32M",
    "--innodb-log-file-size=16M",
)


class MariaDB:
    def __init__(self, folder: Path, options: Sequence[str] = QUICK) -> None:
        self._folder = folder
        self._options = options
        self._socket = folder / "sock"
        self._process: subprocess.Popen[bytes] | None = None
        with (folder / "install.log").open("wb") as log:
            install = [*INSTALL, f"--datadir={folder}/data"]
            subprocess.run(install, stdout=log, stderr=log, check=True)

    def start(self) -> None:
        here = [f"--datadir={self._folder}/data", f"--socket={self._socket}"]
        argv = [*SERVER, *self._options, *here]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*argv, f"--pid-file={self._folder}/pid"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        end_s = time.monotonic() + START_DEADLINE_S
        while not self._answers():
            assert time.monotonic() < end_s, f"MariaDB does not start: {self._folder}/server.log"
            time.sleep(0.05)

    def stop(self) -> None:
        """As after a crash."""
        if self._process:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    @property
    def pid(self) -> int:
        assert self._process is not None, "start() comes first"
        return self._process.pid

    def make_database(self, name: str) -> str:
        """An empty one; its SQLAlchemy URL."""
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"drop database if exists {name}")
            cursor.execute(f"create database {name} character set utf8mb4")
        return f"mysql+pymysql://root@localhost/{name}?unix_socket={self._socket}&charset=utf8mb4"

    def end_connections(self) -> None:
        """Of all clients, from this side."""
        with self._connect() as connection, connection.cursor() as cursor:
            cursor.execute(
                "select id from information_schema.processlist "
                "where command <> 'Daemon' and id <> connection_id()"
            )
            for (client,) in cursor.fetchall():
                cursor.execute(f"kill {client}")

    def _connect(self) -> "pymysql.Connection[pymysql.cursors.Cursor]":
        return pymysql.connect(unix_socket=str(self._socket), user="root")

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as sock, suppress(OSError):
            sock.connect(str(self._socket))
            return True
        return False
