# SPDX-License-Identifier: Apache-2.0
"""A private PostgreSQL for tests: own folder and socket, no port, gone afterwards.

It refuses to run as root: then it runs as the user that its package made, in a folder of his.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psycopg2

from tests.waiting import wait_until

START_DEADLINE_S = 60.0
PROGRAMS = "/usr/lib/postgresql"
USER = "postgres"
SERVER = ("-c", "fsync=off", "-c", "full_page_writes=off", "-c", "listen_addresses=")


class PostgreSQL:
    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="nova-vp-postgresql-"))
        self._as_user: list[str] = []
        if os.geteuid() == 0:
            shutil.chown(self._folder, USER)
            self._as_user = ["runuser", "-u", USER, "--"]
        self._process: subprocess.Popen[bytes] | None = None
        newest = max(Path(PROGRAMS).iterdir(), key=lambda folder: int(folder.name))
        self._programs = newest / "bin"
        made = [self._programs / "initdb", "--no-sync", "--auth=trust", f"--username={USER}"]
        self._run([*made, "--encoding=UTF8", "--locale=C.UTF-8", f"--pgdata={self._folder}/data"])

    def start(self) -> None:
        argv = [self._programs / "postgres", "-D", f"{self._folder}/data", *SERVER]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*self._as_user, *argv, "-k", self._folder],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        wait_until(self._answers, f"PostgreSQL ({self._folder}/server.log)", START_DEADLINE_S)

    def stop(self) -> None:
        """As after a crash, with all that it wrote."""
        if self._process:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None
        shutil.rmtree(self._folder)

    @property
    def pid(self) -> int:
        """Of the process whose children do the work."""
        assert self._process is not None, "start() comes first"
        return self._process.pid

    def make_database(self, name: str) -> str:
        """An empty one; its SQLAlchemy URL."""
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute(f"drop database if exists {name} with (force)")
            cursor.execute(f"create database {name}")
        return f"postgresql+psycopg2://{USER}@/{name}?host={self._folder}"

    def end_connections(self) -> None:
        """Of all clients, from this side."""
        with closing(self._connect()) as connection, connection.cursor() as cursor:
            cursor.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where backend_type = 'client backend' and pid <> pg_backend_pid()"
            )

    def _connect(self) -> Any:
        return psycopg2.connect(host=str(self._folder), user=USER, dbname="postgres")

    def _answers(self) -> bool:
        with suppress(psycopg2.OperationalError):
            self._connect().close()
            return True
        return False

    def _run(self, argv: list[Any]) -> None:
        subprocess.run([*self._as_user, *argv], check=True, capture_output=True)
