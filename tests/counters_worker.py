# SPDX-License-Identifier: Apache-2.0
"""A counter source in a process of its own, so that it can run over a preloaded PMU.

`CountersProcess` is the test's end, `python -m tests.counters_worker` the other: one JSON request
per line in, one answer per line out. Errors travel as their class name and text.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import libvirt

from nova_vp.core.types.sample import Reading
from tests.cpuinfo import SKYLAKE_SERVER
from vp_agent.drivers import base
from vp_agent.drivers.base import CountersDriver, VcpuThreads
from vp_agent.drivers.counters import CounterSettings, open_counters

ROOT = Path(__file__).parent.parent


class CountersProcess:
    def __init__(self, env: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.counters_worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            env={**os.environ, **env},
            text=True,
        )

    def open(
        self,
        name: str,
        uri: str = "",
        vpmu_directory: str = "/nowhere",
        sys_directory: str = "/sys",
        cpuinfo: str = SKYLAKE_SERVER,
    ) -> list[str]:
        """The lines about sources passed over. Raises what opening raised."""
        lines: list[str] = self._ask("open", name, uri, vpmu_directory, sys_directory, cpuinfo)
        return lines

    def driver_name(self) -> str:
        name: str = self._ask("name")
        return name

    def read(self, threads: Iterable[VcpuThreads]) -> dict[str, Reading]:
        answer = self._ask("read", [guest._asdict() for guest in threads])
        return {
            uuid: Reading(**{**reading, "vcpu_cycles": tuple(reading["vcpu_cycles"])})
            for uuid, reading in answer.items()
        }

    def problems(self) -> dict[str, str]:
        problems: dict[str, str] = self._ask("problems")
        return problems

    def fds(self) -> int:
        count: int = self._ask("fds")
        return count

    def limit_fds(self, count: int) -> None:
        self._ask("limit", count)

    def close(self) -> None:
        self._ask("close")

    def stop(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=20)
        self._process.stdout.close()

    def _ask(self, operation: str, *arguments: object) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps([operation, *arguments]), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        if "error" in answer:
            raise getattr(base, answer["error"])(answer["text"])
        return answer["result"]


class _Connection:
    """The agent's one connection, made again when libvirtd was restarted."""

    def __init__(self, uri: str) -> None:
        self._uri = uri
        self._open: libvirt.virConnect | None = None

    def connect(self) -> libvirt.virConnect:
        if self._open is None or not self._open.isAlive():
            try:
                self._open = libvirt.open(self._uri)
            except libvirt.libvirtError as error:
                raise base.HostUnavailable(f"libvirtd does not answer: {error}") from error
        return self._open


class _Worker:
    driver: CountersDriver

    def open(self, name: str, uri: str, *directories: str) -> object:
        *folders, cpuinfo = directories
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(cpuinfo)
            file.flush()
            settings = CounterSettings(
                _Connection(uri).connect, *map(Path, folders), cpuinfo=Path(file.name)
            )
            opened = open_counters(name, settings)
        self.driver = opened.driver
        return opened.passed_over

    def name(self) -> object:
        return self.driver.name

    def read(self, guests: list[dict[str, Any]]) -> object:
        threads = [VcpuThreads(**{**guest, "tids": tuple(guest["tids"])}) for guest in guests]
        return {uuid: reading._asdict() for uuid, reading in self.driver.read(threads).items()}

    def problems(self) -> object:
        return dict(self.driver.problems())

    def fds(self) -> object:
        return len(os.listdir("/proc/self/fd"))

    def limit(self, count: int) -> None:
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (count, hard))

    def close(self) -> None:
        self.driver.close()


def main() -> None:
    libvirt.registerErrorHandler(lambda _context, _error: None, None)
    worker = _Worker()
    for line in sys.stdin:
        operation, *arguments = json.loads(line)
        try:
            answer = {"result": getattr(worker, operation)(*arguments)}
        except base.DriverError as error:
            answer = {"error": type(error).__name__, "text": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
