# SPDX-License-Identifier: Apache-2.0
"""`openstack` as a user runs it, without its second of imports each time.

One process imports the shell and is copied for every command, so that each has a memory of its own,
as a process that was started anew. It ends with whoever started it.
"""

import contextlib
import importlib
import io
import json
import logging
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TABLE_WIDTH = 100
ROOT = Path(__file__).resolve().parents[1]


@dataclass(frozen=True)
class Ran:
    rc: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.rc == 0, self.err
        return json.loads(self.out)

    @property
    def words(self) -> str:
        """What a table or a text says, without its borders and line breaks."""
        assert self.rc == 0, self.err
        assert max(map(len, self.out.splitlines())) <= TABLE_WIDTH, self.out
        return " ".join(self.out.replace("|", " ").split())


class Shell:
    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "tests.openstack_shell"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )

    def run(self, command: str, environment: Mapping[str, str]) -> Ran:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        order = {"words": shlex.split(command), "environment": dict(environment)}
        print(json.dumps(order), file=self._process.stdin, flush=True)
        return Ran(**json.loads(self._process.stdout.readline()))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=20)
        self._process.stdout.close()


LATER = ("keystoneauth1.loading", "openstack.compute.v2._proxy", "openstack.connection")
"""What the shell imports once it needs it."""


def serve() -> None:
    from openstackclient import shell

    for name in LATER:
        importlib.import_module(name)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        shell.main(["vp", "list", "--help"])
    logging.getLogger().handlers.clear()  # Every command adds its own: each error was told twice.
    for line in sys.stdin:
        order = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            pid = os.fork()
            if pid == 0:
                _become(shell, order["words"], order["environment"], out.fileno(), err.fileno())
            _, status = os.waitpid(pid, 0)
            said = [os.pread(file.fileno(), 1 << 20, 0).decode() for file in (out, err)]
        rc = os.waitstatus_to_exitcode(status)
        print(json.dumps({"rc": rc, "out": said[0], "err": said[1]}), flush=True)


def _become(shell: Any, words: list[str], environment: dict[str, str], out: int, err: int) -> None:
    """Never returns into the loop of the process that was copied."""
    rc: Any = 1
    try:
        os.environ.clear()
        os.environ.update(environment)
        nothing = os.open(os.devnull, os.O_RDONLY)
        for number, file in enumerate((nothing, out, err)):
            os.dup2(file, number)
        rc = shell.main(words)
    except SystemExit as exc:
        rc = exc.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(rc if isinstance(rc, int) else 1)


if __name__ == "__main__":
    serve()
