# SPDX-License-Identifier: Apache-2.0
"""Build the source distribution and the wheel, and test each extra in a virtual environment of its
own: `make dist`.

    python -m tests.dist            # the newest libraries
    python -m tests.dist --lowest   # each library at the lower bound that setup.cfg names

Both files are written to `dist/`. The environment has the wheel and nothing of the working tree.
Every module of the extra is imported, and its commands run. Libraries come from the package index
that pip uses.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from email import message_from_bytes
from pathlib import Path
from textwrap import shorten
from typing import Any

from packaging.requirements import Requirement

from tests.working_tree import PACKAGES, copy_files, tracked_files

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
UV = ROOT / ".venv" / "bin" / "uv"
PYTHON = "/usr/bin/python3.11"
SYSTEM_MODULES = Path("/usr/lib/python3/dist-packages")
PACKAGE_FOLDERS = tuple(f"{folder}/" for folder in PACKAGES.values())
ETC = "etc/nova-vp/"
RECIPES = "deploy/"
DATA_FOLDER = ".data/data/share/nova-vp/"
"""Where the wheel has what it installs to share/nova-vp."""
NOT_IN_WHEEL = {
    "cloudkitty/cloudkitty.conf",
    "cloudkitty/metrics.yml",
    "config-generator.conf",
    "grafana/provisioning/dashboards/nova-vp.yaml",
    "policy-generator.conf",
}
"""Of ETC: examples, and what makes the sample files."""
NOT_IMPORTED = {
    "vp_scheduler.filters": "runs inside nova-scheduler, whose environment has Nova",
    "vp_scheduler.weighers": "the same",
    "vp_scheduler.nova_check": "the same",
    "vp_api.wsgi": "reads the configuration where it is imported",
    "vp_agent.cli.calibration_plot": "asks for a library that no extra has, and says so",
    "nova_vp.db.migrations.env": "is executed by alembic; `vp-manage db sync` does that",
}
IMPORT_ALL = """\
import importlib, json, pkgutil, sys
not_imported = set(json.loads(sys.argv[1]))
for name in json.loads(sys.argv[2]):
    module = importlib.import_module(name)
    for found in pkgutil.walk_packages(getattr(module, "__path__", ()), name + "."):
        if found.name not in not_imported:
            importlib.import_module(found.name)
"""
IS_ABSENT = """\
import importlib.util, sys
there = [name for name in sys.argv[1:] if importlib.util.find_spec(name)]
sys.exit(f"installed, and not wanted: {there}" if there else 0)
"""
PYTHON_VARIABLES = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
MIB = 2**20
LAST_LINES, COMMAND_LENGTH = 15, 200


@dataclass(frozen=True, slots=True)
class Extra:
    """An extra of the wheel, and what must work where it is installed."""

    name: str
    modules: tuple[str, ...]
    """That are imported, a package with all that it has. What a program starts with is first."""
    commands: tuple[tuple[str, ...], ...] = ()
    absent: tuple[str, ...] = ("nova", "libvirt")
    """Modules that it must not bring."""
    also_installed: tuple[str, ...] = ()
    """What the installation guide installs with it."""
    has_system_libvirt: bool = False
    """libvirt's binding is the distribution's, and nothing is compiled."""

    @property
    def label(self) -> str:
        return f"{self.name}, python3-libvirt" if self.has_system_libvirt else self.name


AGENT = Extra(
    "agent",
    ("vp_agent",),
    (("vp-agent", "--help"), ("vp-agent", "check", "--help")),
    absent=("nova",),
)
EXTRAS = (
    Extra("cli", ("vp_client",), (("openstack", "vp", "host", "list", "--help"),)),
    AGENT,
    replace(AGENT, has_system_libvirt=True),
    Extra(
        "scheduler",
        ("vp_scheduler.main", "vp_scheduler", "nova_vp.db"),
        (
            ("vp-scheduler", "--help"),
            ("vp-manage", "--config-file", "nova-vp.conf", "db", "sync"),
            ("vp-status", "--help"),
        ),
    ),
    Extra("api", ("vp_api",), (("waitress-serve", "--help"),), also_installed=("waitress>=3.0.0",)),
    Extra("dashboard", ("vp_dashboard.templatetags",), absent=("libvirt",)),
    Extra("sim", ("vp_sim",), (("vp-sim", "--help"),)),
    Extra("tempest", ("vp_tempest_plugin",), (("tempest", "list-plugins"),)),
)


class Failure(Exception):
    """The message says what does not work, with the last lines of the command's output."""


def main() -> int:
    arguments = _arguments()
    try:
        wheel = build()
    except Failure as exc:
        print(exc, file=sys.stderr)
        return 1
    rows = []
    for extra in EXTRAS:
        if arguments.only in (None, extra.name):
            print(f"{extra.label} …", file=sys.stderr)
            rows.append(check(extra, wheel, is_lowest=arguments.lowest))
    print(json.dumps(rows) if arguments.json else table(rows))
    return 1 if any(row["problem"] for row in rows) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.dist", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--lowest", action="store_true", help="libraries at their lower bounds")
    parser.add_argument("--only", choices=sorted({extra.name for extra in EXTRAS}))
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args()


def build() -> Path:
    """The wheel, made from the source distribution, which is made from what git tracks."""
    shutil.rmtree(DIST, ignore_errors=True)
    tracked = tracked_files(ROOT)
    with tempfile.TemporaryDirectory(prefix="vp-dist-") as folder:
        copy_files(tracked, ROOT, Path(folder))
        _run([str(UV), "build", "--quiet", "--out-dir", str(DIST), folder])
    [wheel], [sdist] = DIST.glob("*.whl"), DIST.glob("*.tar.gz")
    _check_wheel(wheel, tracked)
    _check_sdist(sdist, tracked)
    return wheel


def _check_wheel(wheel: Path, tracked: Sequence[str]) -> None:
    """Raises Failure if it lacks a file of a package, or one that the installation guide copies."""
    with zipfile.ZipFile(wheel) as opened:
        packed = {name.partition(DATA_FOLDER)[2] or name for name in opened.namelist()}
    of_packages = {
        name.removeprefix("api/") for name in tracked if name.startswith(PACKAGE_FOLDERS)
    }
    copied = {name.removeprefix(ETC) for name in tracked if name.startswith(ETC)} - NOT_IN_WHEEL
    if missing := sorted((of_packages | copied) - packed):
        raise Failure(f"not in {wheel.name}; name them in setup.cfg: {', '.join(missing)}")


def _check_sdist(sdist: Path, tracked: Sequence[str]) -> None:
    """Raises Failure if it lacks a file that the installation guide or a recipe uses."""
    with tarfile.open(sdist) as opened:
        packed = {name.partition("/")[2] for name in opened.getnames()}
    used = {name for name in tracked if name.startswith((ETC, RECIPES))}
    used |= {"constraints.txt", ".dockerignore"}
    if missing := sorted(used - packed):
        raise Failure(f"not in {sdist.name}; name them in MANIFEST.in: {', '.join(missing)}")


def check(extra: Extra, wheel: Path, *, is_lowest: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="vp-dist-") as name:
        folder = Path(name)
        problem = ""
        try:
            _install(extra, wheel, folder / "venv", is_lowest=is_lowest)
            _use(extra, folder)
        except Failure as exc:
            problem = str(exc)
        return {"extra": extra.label, **_sizes(folder / "venv"), "problem": problem}


def _install(extra: Extra, wheel: Path, venv: Path, *, is_lowest: bool) -> None:
    wanted = [f"nova-vp[{extra.name}] @ {wheel.as_uri()}", *extra.also_installed]
    options = []
    if is_lowest:
        wanted += _required(wheel, extra.name)
        options = ["--resolution", "lowest-direct"]
    _run([str(UV), "venv", "--quiet", "--python", PYTHON, str(venv)])
    if extra.has_system_libvirt:
        _link_binding(venv)
        options.append("--no-build")
    _run([str(UV), "pip", "install", "--quiet", "--python", str(venv), *options, *wanted])
    _run([str(UV), "pip", "check", "--quiet", "--python", str(venv)])


def _required(wheel: Path, extra: str) -> list[str]:
    """What setup.cfg names: only of what is asked for directly is the lowest version taken."""
    with zipfile.ZipFile(wheel) as opened:
        [path] = [name for name in opened.namelist() if name.endswith(".dist-info/METADATA")]
        told = message_from_bytes(opened.read(path)).get_all("Requires-Dist", [])
    found = map(Requirement, told)
    return [
        str(one).partition(";")[0]
        for one in found
        if one.marker is None or one.marker.evaluate({"extra": extra})
    ]


def _link_binding(venv: Path) -> None:
    """As the installation guide does."""
    [modules] = venv.glob("lib/python*/site-packages")
    found = [*SYSTEM_MODULES.glob("*libvirt*")]
    if not found:
        raise Failure("python3-libvirt is not installed; run `make dist`, which installs it")
    for path in found:
        (modules / path.name).symlink_to(path)


def _use(extra: Extra, folder: Path) -> None:
    programs = folder / "venv" / "bin"
    python = str(programs / "python")
    (folder / "nova-vp.conf").write_text("[database]\nconnection = sqlite:///nova-vp.sqlite\n")
    not_imported, modules = json.dumps([*NOT_IMPORTED]), json.dumps(extra.modules)
    _run([python, "-c", IS_ABSENT, *extra.absent], folder)
    _run([python, "-c", IMPORT_ALL, not_imported, modules], folder)
    for program, *words in extra.commands:
        _run([str(programs / program), *words], folder)


def _run(argv: list[str], folder: Path = Path("/")) -> None:
    """Where no clone is on the path. Raises Failure."""
    environment = {
        name: value for name, value in os.environ.items() if name not in PYTHON_VARIABLES
    }
    done = subprocess.run(
        argv,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        last = "\n".join(done.stdout.splitlines()[-LAST_LINES:])
        command = shorten(" ".join(argv), COMMAND_LENGTH)
        raise Failure(f"`{command}` ended with {done.returncode}:\n{last}")


def _sizes(venv: Path) -> dict[str, Any]:
    """Without bytecode."""
    packages = list(venv.glob("lib/python*/site-packages/*.dist-info"))
    files = [
        path.stat().st_size for path in venv.rglob("*") if path.is_file() and path.suffix != ".pyc"
    ]
    return {"packages": len(packages), "mib": round(sum(files) / MIB, 1)}


def table(rows: list[dict[str, Any]]) -> str:
    lines = [f"{'extra':<24} {'packages':>8} {'MiB':>7}  works"]
    for row in rows:
        works = "no" if row["problem"] else "yes"
        lines.append(f"{row['extra']:<24} {row['packages']:>8} {row['mib']:>7}  {works}")
    lines += [f"\n{row['extra']}: {row['problem']}" for row in rows if row["problem"]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
