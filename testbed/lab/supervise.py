# SPDX-License-Identifier: Apache-2.0
"""Keep processes running: `python -m testbed.lab.supervise FOLDER`. Pid 1 of every virtual host.

Steered by files, so that a killed `lab` command leaves nothing half said: services/NAME.json says
what to run, stopped/NAME that it shall not run (its text is the signal to end it with), and
running/NAME is written here. SIGHUP makes it look at once. Standard library only: it starts fast.
"""

import json
import os
import select
import signal
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path

RESPAWN_PAUSE_S = 1.0
MAX_RESPAWN_PAUSE_S = 8.0
QUICK_END_S = 5.0
STOP_GRACE_S = 10.0
LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Service:
    """One process to keep running; `revision` is any text whose change means: start it anew."""

    name: str
    argv: tuple[str, ...]
    environment: dict[str, str]
    log: str
    folder: str
    revision: str = ""

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=1)

    @classmethod
    def from_json(cls, text: str) -> "Service":
        values = json.loads(text)
        return cls(**(values | {"argv": tuple(values["argv"])}))


@dataclass(slots=True)
class Child:
    service: Service
    pid: int
    started_at: float
    kill_at: float | None = None


@dataclass(slots=True)
class Supervisor:
    folder: Path
    children: dict[str, Child] = field(default_factory=dict)
    starts: dict[str, int] = field(default_factory=dict)
    not_before: dict[str, float] = field(default_factory=dict)
    pause_s: dict[str, float] = field(default_factory=dict)

    def look(self, now: float) -> None:
        """One round: reap, end what shall not run, start what shall."""
        self._reap(now)
        wanted = self._read_wanted()
        for name, child in self.children.items():
            if wanted.get(name) != child.service:
                self._end(child, now)
        for name, service in wanted.items():
            if name not in self.children and now >= self.not_before.get(name, 0.0):
                self._start(service, now)

    def _read_wanted(self) -> dict[str, Service]:
        names = {path.stem: path for path in (self.folder / "services").glob("*.json")}
        stopped = {path.name for path in (self.folder / "stopped").iterdir()}
        return {n: Service.from_json(p.read_text()) for n, p in names.items() if n not in stopped}

    def _reap(self, now: float) -> None:
        with suppress(ChildProcessError):
            while True:
                pid, status = os.waitpid(-1, os.WNOHANG)
                if pid == 0:
                    return
                self._bury(pid, status, now)

    def _bury(self, pid: int, status: int, now: float) -> None:
        child = next((c for c in self.children.values() if c.pid == pid), None)
        if child is None:
            return  # an orphan that pid 1 inherited
        name = child.service.name
        with suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)  # workers of a killed parent would hold its sockets
        del self.children[name]
        (self.folder / "running" / name).unlink(missing_ok=True)
        if child.kill_at is None:
            self._postpone(child, now)
        report(f"{name} (pid {pid}) ended with {os.waitstatus_to_exitcode(status)}")

    def _postpone(self, child: Child, now: float) -> None:
        """Who ends right after its start waits longer each time: two cores carry everything."""
        name, is_quick = child.service.name, now - child.started_at < QUICK_END_S
        before_s = self.pause_s.get(name, RESPAWN_PAUSE_S / 2) if is_quick else RESPAWN_PAUSE_S / 2
        self.pause_s[name] = min(2 * before_s, MAX_RESPAWN_PAUSE_S)
        self.not_before[name] = now + self.pause_s[name]

    def _start(self, service: Service, now: float) -> None:
        pid = os.fork()
        if pid == 0:
            execute(service)
        self.children[service.name] = Child(service, pid, now)
        count = self.starts[service.name] = self.starts.get(service.name, 0) + 1
        write_atomically(self.folder / "running" / service.name, f"{pid} {count}")
        report(f"{service.name} started as pid {pid}, start {count}")

    def _end(self, child: Child, now: float) -> None:
        if child.kill_at is None:
            child.kill_at = now + STOP_GRACE_S
            self._send(child, self._read_signal(child.service.name))
        elif now >= child.kill_at:
            self._send(child, signal.SIGKILL)

    def _read_signal(self, name: str) -> signal.Signals:
        with suppress(OSError, KeyError):
            return signal.Signals[(self.folder / "stopped" / name).read_text()]
        return signal.SIGTERM

    def _send(self, child: Child, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            if number == signal.SIGKILL:
                os.killpg(child.pid, number)
            else:
                os.kill(child.pid, number)


def execute(service: Service) -> None:
    """Become the service; never returns."""
    try:
        os.setsid()
        log = os.open(service.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.chdir(service.folder)
        os.execvpe(service.argv[0], service.argv, service.environment)
    except OSError as error:
        os.write(2, f"{service.name} cannot be started: {error}\n".encode())
    finally:
        os._exit(127)


def write_atomically(path: Path, text: str) -> None:
    """A reader, or a successor of a killed writer, sees the old text or the new one."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text)
    temporary.replace(path)


def prepare(folder: Path) -> None:
    for name in ("services", "stopped", "running"):
        (folder / name).mkdir(parents=True, exist_ok=True)


def report(text: str) -> None:
    print(time.strftime("%H:%M:%S"), text, flush=True)


def main() -> None:
    folder = Path(sys.argv[1])
    prepare(folder)
    for path in (folder / "running").iterdir():
        path.unlink()
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGHUP):
        signal.signal(number, lambda *_: None)
    supervisor = Supervisor(folder)
    while True:
        supervisor.look(time.monotonic())
        select.select([read_end], [], [], LOOK_EVERY_S)
        with suppress(BlockingIOError):
            os.read(read_end, 4096)


if __name__ == "__main__":
    main()
