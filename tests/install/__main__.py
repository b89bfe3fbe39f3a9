# SPDX-License-Identifier: Apache-2.0
"""Follow the installation guide to the letter, on two machines made for it: `make install-test`.

    python -m tests.install                            # in a clone
    python -m tests.install dist/nova_vp-0.1.0.tar.gz  # in a source distribution, unpacked

Needs root. Every command of the sections below is run and its output compared with what the guide
shows. What goes into Nova's own processes is the lab's to test.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from tests.install import cloud
from tests.install.guide import Command, File, sections
from tests.install.machine import Machine, Network
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
FETCHES = ("pip install", "apt-get")
PATIENCE_S = 90.0

Did = tuple[int, str]


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
    sdist = _arguments().sdist
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="nova-vp-install-")))
        network = Network()
        stack.callback(network.close)
        log = folder / "services.log"
        followers: dict[str, Follower] = {}
        for name in ("controller", "compute-17"):
            machine = Machine(name, folder, network, sdist)
            systemd = Systemd(machine, log)
            stack.callback(machine.close)
            followers[name] = Follower(machine, systemd, followers)
            if name == "controller":
                cloud.give_services(machine, systemd)
            else:
                cloud.give_libvirt(machine, systemd)
        return _follow(followers, lambda: log.read_text()[-6000:])


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.install", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("sdist", nargs="?", type=Path, help="unpacked in place of a clone")
    arguments = parser.parse_args()
    if arguments.sdist is not None and not arguments.sdist.is_file():
        parser.error(f"there is no {arguments.sdist}; `make dist` writes one to dist/")
    return arguments


def _follow(followers: dict[str, Follower], logged: Callable[[], str]) -> int:
    guide = sections()
    [nova_conf] = [step for step in guide["nova-scheduler"].steps if isinstance(step, File)]
    before: dict[str, Command | File] = {"Upgrade": nova_conf, "Removal": STOP}
    try:
        for title, place in PLACES:
            print(f"\n== {title}, on {place}", flush=True)
            if title in before:
                followers["controller"].follow(before[title])
            for step in guide[title].steps:
                followers[place].follow(step)
    except (SystemExit, AssertionError) as exc:
        print(f"{exc}\nservices:\n{logged()}", file=sys.stderr)
        return 1
    print("\nthe guide holds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
