# SPDX-License-Identifier: Apache-2.0
"""Follow the installation guide to the letter, on two machines made for it: `make install-test`.

    python -m tests.install                                      # in a clone
    python -m tests.install dist/nova_vp-0.1.0.tar.gz            # in a source distribution
    python -m tests.install dist/nova_vp-0.1.0-py3-none-any.whl  # from the wheel, no compiler

Needs root. Every command of the sections below is run and its output compared with what the guide
shows. For the wheel the machines are fresh roots of Debian packages, without anything of this one.
What goes into Nova's own processes is the lab's to test.
"""

import argparse
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from testbed.machine.root import build
from tests.install import cloud
from tests.install.guide import Command, File, sections
from tests.install.machine import Machine, Network, pack_clone, pack_sdist, pack_wheel
from tests.install.systemd import Systemd, confined, run_argv

STOP = Command("systemctl stop vp-api vp-scheduler", is_root=True)
"""Machines share their processes' numbers, and a user who runs any cannot be deleted."""
PLACES = (
    ("Message bus", "controller"),
    ("Compute hosts", "compute-17"),
    ("Controllers", "controller"),
    ("nova-api", "controller"),
    ("Live migrations", "controller"),
    ("Upgrade", "controller"),
    ("Removal", "compute-17"),
)
COMPILING = ("gcc", "-m venv", "pip install")
FETCHES = ("pip install", "apt-get")
PATIENCE_S = 90.0
FROM_WHEEL = "Without a clone, without a compiler"
"""The section with the commands for a compute host that take the place of those that compile."""
DEBIAN = "12"

Did = tuple[int, str]
Guide = dict[str, list[Command | File]]
"""What is typed and written in each section."""


class Follower:
    """Somebody who types what the guide says into one machine, and reaches the others from it."""

    def __init__(
        self, machine: Machine, systemd: Systemd, others: "Mapping[str, Follower]"
    ) -> None:
        self._machine = machine
        self._systemd = systemd
        self._others = others

    def follow(self, step: Command | File) -> None:
        if isinstance(step, File):
            self._machine.write(step.path, step.text)
            return
        print(f"{self._machine.name}{'#' if step.is_root else '$'} {step.text}", flush=True)
        started_s = time.monotonic()
        while True:
            status, said = self._type(step)
            if step.is_met_by(said) if step.expected else status == 0:
                print(said, flush=True) if step.expected else None
                return
            if not step.expected or time.monotonic() > started_s + PATIENCE_S:
                raise SystemExit(
                    f"status {status}, and it said:\n{said}\nexpected:\n{step.expected}"
                )
            time.sleep(1)

    def _type(self, step: Command) -> Did:
        program, *words = step.text.split()
        if program == "ssh":
            return self._others[words[0]]._type(Command(" ".join(words[1:]), step.is_root))
        if program == "scp":
            _, source, target = words
            name, _, path = target.partition(":")
            self._machine.copy(source, self._others[name]._machine, path)
            return 0, ""
        if step.text.startswith("systemctl"):
            return self._systemd.ask(step.text)
        text = step.text
        if text.startswith("systemd-run"):
            service, argv = run_argv(text)
            text = " ".join(f"'{word}'" for word in confined(service, argv))
        has_nova = step.text.startswith("python ")
        environment = {} if step.is_root and not has_nova else cloud.ADMIN
        fetches = any(word in text for word in FETCHES)
        done = self._machine.run(text, environment, needs_internet=fetches)
        return done.returncode, done.stdout


def main() -> int:
    file = _arguments().file
    wheel = file if file is not None and file.suffix == ".whl" else None
    root = build(DEBIAN) if wheel else None
    packed = pack_wheel(wheel) if wheel else pack_sdist(file) if file else pack_clone()
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nova-vp-install-")))
        network = Network()
        stack.callback(network.close)
        log = folder / "services.log"
        followers: dict[str, Follower] = {}
        for name in ("controller", "compute-17"):
            machine = Machine(name, folder, network, packed, root)
            systemd = Systemd(machine, log)
            stack.callback(machine.close)
            followers[name] = Follower(machine, systemd, followers)
            if root is not None:
                cloud.install_packages(machine)
            if name == "controller":
                cloud.give_services(machine, systemd)
            else:
                cloud.give_libvirt(machine, systemd)
        return _follow(followers, _guide(wheel), lambda: log.read_text()[-6000:])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.install", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "file", nargs="?", type=Path, help="source distribution or wheel, in place of a clone"
    )
    arguments = parser.parse_args()
    if arguments.file is not None and not arguments.file.is_file():
        parser.error(f"there is no {arguments.file}; `make dist` writes both to dist/")
    return arguments


def _guide(wheel: Path | None) -> Guide:
    guide = {title: section.steps for title, section in sections().items()}
    if wheel is None:
        return guide
    compiling = [
        step
        for step in guide["Compute hosts"]
        if isinstance(step, Command) and any(word in step.text for word in COMPILING)
    ]
    at = guide["Compute hosts"].index(compiling[0])
    others = [step for step in guide["Compute hosts"] if step not in compiling]
    guide["Compute hosts"] = [*others[:at], *guide[FROM_WHEEL], *others[at:]]
    return {title: [_of_wheel(step, wheel) for step in steps] for title, steps in guide.items()}


def _of_wheel(step: Command | File, wheel: Path) -> Command | File:
    if isinstance(step, File):
        return step
    return replace(step, text=re.sub(r"'\.(\[[a-z,]+\])'", rf"'./{wheel.name}\1'", step.text))


def _follow(followers: dict[str, Follower], guide: Guide, logged: Callable[[], str]) -> int:
    [nova_conf] = [step for step in guide["nova-scheduler"] if isinstance(step, File)]
    before: dict[str, Command | File] = {"Upgrade": nova_conf, "Removal": STOP}
    try:
        for title, place in PLACES:
            print(f"\n== {title}, on {place}", flush=True)
            if title in before:
                followers["controller"].follow(before[title])
            for step in guide[title]:
                followers[place].follow(step)
    except (SystemExit, AssertionError) as exc:
        print(f"{exc}\nservices:\n{logged()}", file=sys.stderr)
        return 1
    print("\nthe guide holds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
