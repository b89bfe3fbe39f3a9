# SPDX-License-Identifier: Apache-2.0
"""The command line of the lab: parses, locks, calls, explains failures."""

import argparse
import fcntl
import os
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from testbed.lab import cgroups, processes, settings
from testbed.lab.errors import LabError
from testbed.lab.processes import CONTROLLER, Address

LOCK = settings.STATE / "lock"


@contextmanager
def locked(command: str) -> Iterator[None]:
    """One changing command at a time; the kernel frees the lock of a killed one."""
    settings.STATE.mkdir(mode=0o700, exist_ok=True)
    with LOCK.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise LabError(
                f"another lab command is at work ({file.read().strip() or 'starting'}); "
                "wait for it or end it, then try again"
            ) from None
        file.truncate(0)
        file.write(f"`lab {command}`, pid {os.getpid()}")
        file.flush()
        try:
            yield
        finally:
            file.truncate(0)


def up(arguments: argparse.Namespace) -> None:
    from testbed.lab.host import Host
    from testbed.lab.up import Progress
    from testbed.lab.up import up as bring_up

    count = 0 if arguments.host and arguments.hosts is None else arguments.hosts
    named = [Host.parse(text) for text in arguments.host]
    standard = [Host(f"vp{n}") for n in range(1, (2 if count is None else count) + 1)]
    wanted = {one.name: one for one in [*standard, *named]}
    with locked("up"):
        bring_up(list(wanted.values()), Progress(), arguments.nova, with_horizon=arguments.horizon)


def down(_: argparse.Namespace) -> None:
    from testbed.lab.up import Progress
    from testbed.lab.up import down as bring_down

    with locked("down"):
        bring_down(Progress())


def status(_: argparse.Namespace) -> int:
    places = sorted(path.parent.name for path in settings.RUN.glob("*/supervise"))
    if not places:
        print("the lab is down")
        return 1
    is_whole = True
    for where in places:
        root = processes.supervisor_pid(where)
        print(f"{where}: {f'pid {root}' if root else 'DOWN'}")
        for path in sorted((processes.control_folder(where) / "services").glob("*.json")):
            address = Address(path.stem, where)
            pid, starts = processes.service_pid(address), processes.count_starts(address)
            is_whole = is_whole and pid is not None
            text = f"pid {pid}" if pid else _why_not_running(address)
            print(f"  {path.stem:16} {text}" + (f", started {starts} times" if starts > 1 else ""))
    print(f"{len(cgroups.read_pids())} processes; state and logs in {settings.STATE}")
    return 0 if is_whole else 1


def _why_not_running(address: Address) -> str:
    if (processes.control_folder(address.where) / "stopped" / address.name).exists():
        return f"stopped (`lab start {address}`)"
    return "NOT RUNNING (`lab up` repairs)"


def logs(arguments: argparse.Namespace) -> None:
    if arguments.name is None:
        _list_logs()
        return
    name, _, where = arguments.name.partition("@")
    path = settings.LOG / (where or CONTROLLER) / f"{name}.log"
    if not path.exists():
        there = sorted(f"{name}@{one.parent.name}" for one in settings.LOG.glob(f"*/{name}.log"))
        hint = f"there is {', '.join(there)}" if there else "`lab logs` lists what there is"
        raise LabError(f"no log {path}; {hint}")
    follow = ["--follow"] if arguments.follow else []
    os.execvp("tail", ["tail", f"--lines={arguments.lines}", *follow, str(path)])


def _list_logs() -> None:
    """Those of services by file; those of servers, of which there are many, by folder."""
    for path in sorted(settings.LOG.glob("*/*.log")):
        print(f"{path.stat().st_size:10}  {path}")
    for folder in sorted(settings.LOG.glob("*/libvirt/qemu")):
        print(f"{len(list(folder.glob('*.log'))):4} files  {folder}/ (QEMU's, one per server)")


def shell(arguments: argparse.Namespace) -> None:
    from testbed.lab.cloud import shell_argv

    argv = shell_argv(arguments.name, *(arguments.command or ["bash"]))
    environment = settings.base_environment() | {"HOME": "/root"}
    environment |= processes.read_shell_environment(arguments.name)
    environment["TERM"] = os.environ.get("TERM", "dumb")
    environment["PATH"] += f":{settings.ROOT / 'testbed' / 'vpmu'}"
    os.execvpe(argv[0], argv, environment)


def env(_: argparse.Namespace) -> None:
    for key, value in settings.admin_environment().items():
        print(f"export {key}={shlex.quote(value)}")
    print(f"export PATH={shlex.quote(str(settings.VENV / 'bin'))}:$PATH")


def stop(arguments: argparse.Namespace) -> None:
    with locked("stop"):
        processes.stop(Address.parse(arguments.name))


def start(arguments: argparse.Namespace) -> None:
    with locked("start"):
        processes.start(Address.parse(arguments.name))


def restart(arguments: argparse.Namespace) -> None:
    with locked("restart"):
        processes.stop(Address.parse(arguments.name))
        processes.start(Address.parse(arguments.name))


def kill(arguments: argparse.Namespace) -> None:
    with locked("kill"):
        processes.kill(Address.parse(arguments.name))


def power_off(arguments: argparse.Namespace) -> None:
    from testbed.lab import host
    from testbed.lab.up import require_host

    with locked("power-off"):
        require_host(arguments.name)
        host.power_off(arguments.name)


def remove(arguments: argparse.Namespace) -> None:
    from testbed.lab.up import Progress
    from testbed.lab.up import remove as take_out

    with locked("remove"):
        take_out(arguments.name, Progress())


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="lab", description="A real cloud on one machine.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, call: object, text: str, argument: str = "") -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=text, description=text)
        added.set_defaults(call=call)
        if argument:
            added.add_argument("name", metavar=argument)
        return added

    bring_up = command("up", up, "bring the lab up, or repair it; does nothing to what is well")
    bring_up.add_argument("--hosts", type=int, help="number of standard hosts (default 2)")
    text = (
        "a host with cells of CPUs, e.g. vp3=0-3/4-7 (CPUs that are not real: see README), "
        "vp3=modelled:0-3/4-7 (guests share them in modelled time), "
        "or vp1=0+1 for one cell with two last-level caches"
    )
    bring_up.add_argument("--host", action="append", default=[], metavar="NAME=CELLS", help=text)
    text = "a virtual environment whose Nova the lab runs until it goes down (default .venv)"
    bring_up.add_argument("--nova", type=Path, metavar="ENVIRONMENT", help=text)
    text = "Horizon with our panels too; the first time it is fetched and made (700 MiB)"
    bring_up.add_argument("--horizon", action="store_true", help=text)
    command("down", down, "end everything; only logs stay")
    command("status", status, "list hosts and services; exit status 0 if all run")
    show = command("logs", logs, "list logs, or show the end of one")
    show.add_argument("name", nargs="?", metavar="SERVICE[@HOST]")
    show.add_argument("-f", "--follow", action="store_true")
    show.add_argument("-n", "--lines", type=int, default=50)
    enter = command("shell", shell, "run a command (or bash) inside a host", "HOST")
    enter.add_argument("command", nargs=argparse.REMAINDER)
    command("env", env, "print shell exports for the admin CLI")
    command("stop", stop, "end one service and keep it stopped", "SERVICE[@HOST]")
    command("start", start, "start a stopped service", "SERVICE[@HOST]")
    command("restart", restart, "stop and start one service", "SERVICE[@HOST]")
    command("kill", kill, "SIGKILL one service; it is started again", "SERVICE[@HOST]")
    command("power-off", power_off, "end one host at once; `lab up` starts it again", "HOST")
    command("remove", remove, "end one host that has no servers, and forget it", "HOST")
    return parser.parse_args()


def main() -> int:
    arguments = parse()
    try:
        return arguments.call(arguments) or 0
    except LabError as error:
        print(f"lab: {error.explain()}", file=sys.stderr)
    except ValueError as error:
        print(f"lab: {error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("lab: interrupted; `lab up` continues, `lab down` cleans up", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
