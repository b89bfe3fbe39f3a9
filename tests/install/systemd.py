# SPDX-License-Identifier: Apache-2.0
"""As much of systemd as the guide needs, on machines without it: units run as they say.

User, groups, capabilities and folders of a unit hold, and its stop runs ExecStopPost; sandboxing
(`Protect...`, `Private...`) and timers do not: `systemd-analyze verify` reads those in unit tests.
"""

import configparser
import os
import shlex
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.install.machine import SECURE_PATH, Machine

UNITS = "/etc/systemd/system"


Service = Mapping[str, str]


def service_of(machine: Machine, unit: str) -> Service:
    found = configparser.RawConfigParser(strict=False)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read_string(machine.run(f"cat {UNITS}/{unit}", {}).stdout)
    return found["Service"]


class Systemd:
    """The one of a machine; `log` gets what its services print."""

    def __init__(self, machine: Machine, log: Path) -> None:
        self._machine = machine
        self._log = log
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._timers: set[str] = set()

    def ask(self, command: str) -> tuple[int, str]:
        """`systemctl ...`: exit status and output."""
        verb, *names = [word for word in shlex.split(command)[1:] if word != "--now"]
        names = [name if "." in name else f"{name}.service" for name in names]
        if verb == "is-active":
            said = ["active" if self._is_active(name) else "inactive" for name in names]
            return (0 if set(said) == {"active"} else 3), "\n".join(said)
        for name in names:
            if verb in ("restart", "stop", "disable"):
                self.stop(name)
            if verb in ("restart", "start", "enable"):
                self.start(name)
        return 0, ""

    def start(self, name: str) -> None:
        if name.endswith(".timer"):
            self._timers.add(name)
            return
        if name == "libvirtd.service":
            argv = ["libvirtd"]
        else:
            service = service_of(self._machine, name)
            self._make_folders(service)
            argv = confined(service, shlex.split(service["ExecStart"]))
        self._running[name] = self.spawn(argv)

    def spawn(self, argv: list[str]) -> "subprocess.Popen[bytes]":
        with self._log.open("ab") as log:
            return subprocess.Popen(
                self._machine.enter(argv, folder="/"),
                env={"PATH": SECURE_PATH, "LANG": "C.UTF-8", "PYTHONWARNINGS": "ignore"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def stop(self, name: str) -> None:
        self._timers.discard(name)
        if (process := self._running.pop(name, None)) is None:
            return
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(timeout=60)
        if name == "libvirtd.service":
            return
        service = service_of(self._machine, name)
        if after := service.get("ExecStopPost"):
            self.spawn(confined(service, shlex.split(after))).wait(timeout=60)

    def _is_active(self, name: str) -> bool:
        process = self._running.get(name)
        return name in self._timers or (process is not None and process.poll() is None)

    def _make_folders(self, service: Service) -> None:
        for key, parent in (("StateDirectory", "/var/lib"), ("RuntimeDirectory", "/run")):
            if name := service.get(key):
                owner = f"-o {service['User']} -g {service['User']}"
                self._machine.run(f"install -d {owner} {parent}/{name}", {})


def confined(service: Service, argv: list[str]) -> list[str]:
    """With the rights that the unit gives, and no more."""
    wanted = service.get("AmbientCapabilities", "").lower().replace("cap_", "").split()
    caps = ",".join(["-all", *(f"+{name}" for name in wanted)])
    user, more = service["User"], service.get("SupplementaryGroups", "")
    ids = f"--reuid={user} --regid={user}".split()
    groups = f"--groups={user},{more}" if more else "--init-groups"
    rights = [f"--inh-caps={caps}", f"--ambient-caps={caps}", f"--bounding-set={caps}"]
    limit = service.get("LimitNOFILE", "1024")
    # First who it is, with what survives that; then, of it, what an unprivileged program keeps.
    return ["prlimit", f"--nofile={limit}", "setpriv", *ids, groups, *rights, *argv]


def run_argv(command: str) -> tuple[dict[str, str], list[str]]:
    """Of `systemd-run --quiet --pipe --wait -p KEY=VALUE ... COMMAND`."""
    words = [
        word for word in shlex.split(command)[1:] if word not in ("--quiet", "--pipe", "--wait")
    ]
    service: dict[str, str] = {}
    while words[0] == "-p":
        key, _, value = words[1].partition("=")
        service[key] = value
        words = words[2:]
    return service, words
