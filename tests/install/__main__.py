# SPDX-License-Identifier: Apache-2.0
"""Follow the installation guide to the letter, on two machines made for it: `make install-test`.

    python -m tests.install                                      # in a clone
    python -m tests.install dist/nova_vp-0.1.0.tar.gz            # in a source distribution
    python -m tests.install dist/nova_vp-0.1.0-py3-none-any.whl  # from the wheel, no compiler

Needs root. Every command of the sections below is run and its output compared with what the guide
shows, on each release of Debian, or on the one that `--debian` names. The machines are fresh roots
of Debian packages with real systemd, without anything of this one.
What Nova's own processes do with it is the lab's to test.
"""

import argparse
import re
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from testbed.lab.errors import LabError
from testbed.machine import settings
from tests.install import cloud
from tests.install.guide import Command, File, sections
from tests.install.machine import Machine, pack_clone, pack_sdist, pack_wheel
from tests.install.trial import Trial

PLACES = (
    ("Message bus", "controller"),
    ("Compute hosts", "compute-17"),
    ("Controllers", "controller"),
    ("nova-scheduler", "controller"),
    ("nova-api", "controller"),
    ("Live migrations", "controller"),
    ("Upgrade", "controller"),
)
PLACES_AT_THE_END = (("Removal", "compute-17"),)
COMPILING = ("gcc", "-m venv", "pip install")
OF_NOVA = ("pip", "python")
"""Programs of the Python environment of Nova."""
PATIENCE_S = 300.0
FROM_WHEEL = "Without a clone, without a compiler"
"""The section with the commands for a compute host that take the place of those that compile."""

Did = tuple[int, str]
Guide = dict[str, list[Command | File]]
"""What is typed and written in each section."""


class Follower:
    """Somebody who types what the guide says into one machine, and reaches the others from it."""

    def __init__(self, machine: Machine, others: "Mapping[str, Follower]") -> None:
        self._machine = machine
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
        is_ours = step.is_root and program not in OF_NOVA
        done = self._machine.run(step.text, {} if is_ours else cloud.ADMIN)
        return done.returncode, done.stdout


def main() -> int:
    arguments = _arguments()
    file = arguments.file
    wheel = file if file is not None and file.suffix == ".whl" else None
    packed = pack_wheel(wheel) if wheel else pack_sdist(file) if file else pack_clone()
    guide = _guide(wheel)
    return max(_install(packed, guide, debian) for debian in arguments.debian or settings.SUITES)


def _install(packed: bytes, guide: Guide, debian: str) -> int:
    print(f"\n== Debian {debian}", flush=True)
    with ExitStack() as stack:
        controller = Machine("controller", debian, packed)
        stack.callback(controller.close)
        compute = Machine("compute-17", debian, packed, beside="controller")
        stack.callback(compute.close)
        machines = (controller, compute)
        followers: dict[str, Follower] = {}
        followers |= {machine.name: Follower(machine, followers) for machine in machines}
        try:
            print("what the guide takes for given: minutes", flush=True)
            cloud.give_services(controller)
            cloud.give_libvirt(compute)
            _follow(followers, guide, PLACES)
            Trial(compute).make()
            _follow(followers, guide, PLACES_AT_THE_END)
        except (SystemExit, AssertionError, LabError) as exc:
            print(exc, *(machine.last_words() for machine in machines), sep="\n", file=sys.stderr)
            return 1
    print(f"\nthe guide holds on Debian {debian}")
    return 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.install", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument(
        "file", nargs="?", type=Path, help="source distribution or wheel, in place of a clone"
    )
    parser.add_argument(
        "--debian", action="append", choices=settings.SUITES, help="a release, in place of all"
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
    text = re.sub(r"'\.(\[[a-z,]+\])'", rf"'./{wheel.name}\1'", step.text)
    return replace(step, text=re.sub(r"pip install \.$", f"pip install ./{wheel.name}", text))


def _follow(
    followers: Mapping[str, Follower], guide: Guide, places: Sequence[tuple[str, str]]
) -> None:
    for title, place in places:
        print(f"\n== {title}, on {place}", flush=True)
        for step in guide[title]:
            followers[place].follow(step)


if __name__ == "__main__":
    sys.exit(main())
