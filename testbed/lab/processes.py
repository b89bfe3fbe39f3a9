# SPDX-License-Identifier: Apache-2.0
"""Starting and steering processes: one-shot commands, supervisors and the services they keep.

Whatever starts here first enters its cgroup and writes its pid file, then becomes the program: a
`lab` command killed in between leaves no process that the next one cannot find.
"""

import json
import math
import os
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from testbed.lab import cgroups, settings
from testbed.lab.errors import LabError
from testbed.lab.supervise import Service, prepare, write_atomically
from testbed.lab.waiting import wait_for

ENTER = 'for group in $1; do echo $$ >"$group/cgroup.procs"; done; shift; exec "$@"'
# A supervisor may be woken before it has its handler: the signal is ignored until then.
LAUNCH = """trap '' HUP; echo $$ >"$1"; shift; """ + ENTER
CONTROLLER = "controller"
MAX_STARTS = 4


def run(*argv: str, log: Path | None = None, stdin: Path | None = None) -> str:
    """Run a command of the lab to its end; its output, or LabError."""
    group = cgroups.make_tracker("commands")
    result = subprocess.run(
        entering([group], list(argv)),
        env=settings.base_environment(),
        stdin=stdin.open("rb") if stdin else subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    text = result.stdout.decode(errors="replace")
    if log:
        with log.open("a") as file:
            file.write(f"$ {' '.join(argv)}\n{text}")
    if result.returncode:
        hint = "" if log else f": {text.strip()[-400:]}"
        raise LabError(
            f"{Path(argv[0]).name} failed with exit status {result.returncode}{hint}", log
        )
    return text


def entering(groups: list[Path], argv: list[str]) -> list[str]:
    """The command line that enters these cgroups and then becomes `argv`."""
    return ["/bin/sh", "-c", ENTER, "sh", " ".join(map(str, groups)), *argv]


def launch(where: str, argv: list[str], groups: list[Path], environment: dict[str, str]) -> None:
    """Start the root process of the controller or of a host, free of this terminal."""
    with log_path(where, "init").open("ab") as log:
        subprocess.Popen(
            [
                "/bin/sh",
                "-c",
                LAUNCH,
                "sh",
                str(pid_file(where)),
                " ".join(map(str, groups)),
                *argv,
            ],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    wait_for(lambda: root_pid(where), f"{where} to start", deadline_s=60, interval_s=0.02)


def control_folder(where: str) -> Path:
    return settings.RUN / where / "supervise"


def pid_file(where: str) -> Path:
    return settings.RUN / where / "pid"


def write_shell_environment(where: str, environment: dict[str, str]) -> None:
    """What commands of `lab shell` get besides the usual."""
    _shell_environment(where).write_text(json.dumps(environment))


def read_shell_environment(where: str) -> dict[str, str]:
    with suppress(OSError):
        return dict(json.loads(_shell_environment(where).read_text()))
    return {}


def _shell_environment(where: str) -> Path:
    return settings.RUN / where / "shell.json"


def log_path(where: str, name: str) -> Path:
    path = settings.LOG / where / f"{name}.log"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def root_pid(where: str) -> int | None:
    """Pid of the launched root process while it lives (checked against its cgroup)."""
    with suppress(OSError, ValueError):
        pid = int(pid_file(where).read_text())
        return pid if pid in cgroups.read_pids(where) else None
    return None


def supervisor_pid(where: str) -> int | None:
    """The supervisor, as this namespace counts: of a host, the child of its `unshare`."""
    pid = root_pid(where)
    if pid is None or where == CONTROLLER:
        return pid
    with suppress(OSError):
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        return int(children[0]) if children else None
    return None


def ensure_controller() -> None:
    prepare(control_folder(CONTROLLER))
    if root_pid(CONTROLLER) is None:
        cgroups.make_tracker(CONTROLLER)
        cgroups.kill_all(CONTROLLER)  # services whose supervisor was killed
        argv = [str(settings.PYTHON), "-m", "testbed.lab.supervise"]
        launch(
            CONTROLLER,
            [*argv, str(control_folder(CONTROLLER))],
            [cgroups.tracker(CONTROLLER)],
            settings.base_environment(),
        )


def ensure_service(where: str, service: Service) -> None:
    """Have it kept running from now on; one that runs as described is left alone."""
    write_atomically(control_folder(where) / "services" / f"{service.name}.json", service.to_json())
    (control_folder(where) / "stopped" / service.name).unlink(missing_ok=True)
    _wake(where)


@dataclass(frozen=True, slots=True)
class Address:
    """A service as people name it: `nova-api`, or `libvirtd@vp1` on a host."""

    name: str
    where: str

    @classmethod
    def parse(cls, text: str) -> "Address":
        name, _, where = text.partition("@")
        address = cls(name, where or CONTROLLER)
        if not is_kept(address):
            raise LabError(_unknown(text, address))
        return address

    def __str__(self) -> str:
        return self.name if self.where == CONTROLLER else f"{self.name}@{self.where}"


def is_kept(address: Address) -> bool:
    """There is such a service, which runs or was stopped."""
    return (control_folder(address.where) / "services" / f"{address.name}.json").exists()


def _unknown(text: str, address: Address) -> str:
    """What there is instead: on this place, and elsewhere under this name."""
    there = {
        path.parents[1].name: sorted(one.stem for one in path.glob("*.json"))
        for path in settings.RUN.glob("*/supervise/services")
    }
    if address.where not in there:
        return f"no service {text}: no host {address.where}; `lab status` lists all there are"
    known = ", ".join(there.pop(address.where))
    others = [str(Address(address.name, where)) for where in there if address.name in there[where]]
    hint = f"; elsewhere: {', '.join(sorted(others))}" if others else ""
    return f"no service {text}; {address.where} has: {known}{hint}"


def service_pid(address: Address) -> int | None:
    """The running service's pid as this namespace counts."""
    inner = _read_running(address)[0]
    supervisor = supervisor_pid(address.where)
    if inner is None or supervisor is None:
        return None
    with suppress(OSError):
        children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
        return next((int(pid) for pid in children if _innermost_pid(int(pid)) == inner), None)
    return None


def count_starts(address: Address) -> int:
    return _read_running(address)[1]


def started_at(address: Address) -> float:
    """Wall-clock seconds of its latest start; infinity while it does not run."""
    with suppress(OSError):
        return (control_folder(address.where) / "running" / address.name).stat().st_mtime
    return math.inf


def stop(address: Address, number: signal.Signals = signal.SIGTERM) -> None:
    """End it and keep it from coming back."""
    write_atomically(control_folder(address.where) / "stopped" / address.name, number.name)
    _wake(address.where)
    wait_for(lambda: service_pid(address) is None, f"{address} to end", deadline_s=60)


def start(address: Address) -> None:
    (control_folder(address.where) / "stopped" / address.name).unlink(missing_ok=True)
    _wake(address.where)
    wait_for(lambda: service_pid(address), f"{address} to start", deadline_s=60)


def kill(address: Address) -> None:
    """SIGKILL it and its workers, without a word to the supervisor, which starts it again."""
    pid = service_pid(address)
    if pid is None:
        raise LabError(f"{address} does not run; `lab start {address}` starts it")
    os.killpg(pid, signal.SIGKILL)
    wait_for(lambda: service_pid(address) != pid, f"{address} to end", deadline_s=60)


def wait_until_ready(address: Address, is_ready: Callable[[], bool], *, deadline_s: float) -> None:
    """Until the service answers; LabError with its log when it does not or keeps dying."""
    log = log_path(address.where, address.name)
    starts_before = count_starts(address)

    def probe() -> bool:
        if count_starts(address) - starts_before > MAX_STARTS:
            raise LabError(f"{address} ends as often as it starts", log)
        return is_ready()

    try:
        wait_for(probe, f"{address} to be ready", deadline_s=deadline_s, interval_s=0.2)
    except LabError as error:
        raise LabError(str(error), log) from error


def _read_running(address: Address) -> tuple[int | None, int]:
    path = control_folder(address.where) / "running" / address.name
    with suppress(OSError):
        pid, starts = path.read_text().split()
        return int(pid), int(starts)
    return None, 0


def _innermost_pid(pid: int) -> int | None:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return None


def _wake(where: str) -> None:
    pid = supervisor_pid(where)
    with suppress(ProcessLookupError):
        if pid is not None and (control_folder(where) / "services").exists():
            os.kill(pid, signal.SIGHUP)
