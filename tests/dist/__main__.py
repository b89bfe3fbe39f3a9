# SPDX-License-Identifier: Apache-2.0
"""Build the source distribution and the wheel, and prove each extra in an environment of its own.

    python -m tests.dist            # libraries as pip finds them today
    python -m tests.dist --lowest   # each at the lower bound that setup.cfg names

`dist/` gets both files. An extra is proved by its wheel alone: no clone is on the path, every
module of the extra is imported, and its commands run. Packages come from the index that pip uses.
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
from collections.abc import Iterable
from dataclasses import dataclass
from email import message_from_bytes
from pathlib import Path
from textwrap import shorten
from typing import Any

from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"
UV = ROOT / ".venv" / "bin" / "uv"
PYTHON = "/usr/bin/python3.11"
OF_DISTRIBUTION = Path("/usr/lib/python3/dist-packages")
PACKAGES = (
    "nova_vp",
    "vp_agent",
    "api/vp_api",
    "vp_client",
    "vp_dashboard",
    "vp_scheduler",
    "vp_sim",
    "vp_tempest_plugin",
)
DATA = ".data/data/share/nova-vp/"
"""What comes before the name of a file that is no module."""
OF_THE_CLONE = {
    "cloudkitty/cloudkitty.conf",
    "cloudkitty/metrics.yml",
    "config-generator.conf",
    "grafana/provisioning/dashboards/nova-vp.yaml",
    "policy-generator.conf",
}
"""Examples, and what makes the sample files."""
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
left_out = set(json.loads(sys.argv[1]))
for name in json.loads(sys.argv[2]):
    module = importlib.import_module(name)
    for found in pkgutil.walk_packages(getattr(module, "__path__", ()), name + "."):
        if found.name not in left_out:
            importlib.import_module(found.name)
"""
IS_ABSENT = """\
import importlib.util, sys
there = [name for name in sys.argv[1:] if importlib.util.find_spec(name)]
sys.exit(f"installed, and not wanted: {there}" if there else 0)
"""
OF_CLONES = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")
MIB = 2**20
LAST_LINES, MOST_LETTERS = 15, 200


@dataclass(frozen=True, slots=True)
class Extra:
    """What somebody installs, and what must work then."""

    name: str
    modules: tuple[str, ...]
    """That are imported, a package with all that it has. What a program starts with is first."""
    commands: tuple[tuple[str, ...], ...] = ()
    absent: tuple[str, ...] = ("nova", "libvirt")
    """Modules that it must not bring."""
    beside: tuple[str, ...] = ()
    """What the installation guide installs with it."""
    is_of_distribution: bool = False
    """libvirt's binding is the distribution's, and nothing is compiled."""

    @property
    def label(self) -> str:
        return f"{self.name}, python3-libvirt" if self.is_of_distribution else self.name


AGENT = {
    "name": "agent",
    "modules": ("vp_agent",),
    "commands": (("vp-agent", "--help"), ("vp-agent", "check", "--help")),
    "absent": ("nova",),
}
EXTRAS = (
    Extra("cli", ("vp_client",), (("openstack", "vp", "host", "list", "--help"),)),
    Extra(**AGENT),
    Extra(**AGENT, is_of_distribution=True),
    Extra(
        "scheduler",
        ("vp_scheduler.main", "vp_scheduler", "nova_vp.db"),
        (("vp-scheduler", "--help"), ("vp-manage", "db", "sync"), ("vp-status", "--help")),
    ),
    Extra("api", ("vp_api",), (("waitress-serve", "--help"),), beside=("waitress>=3.0.0",)),
    Extra("dashboard", ("vp_dashboard.templatetags",), absent=("libvirt",)),
    Extra("sim", ("vp_sim",), (("vp-sim", "--help"),)),
    Extra("tempest", ("vp_tempest_plugin",), (("tempest", "list-plugins"),)),
)


class Unproved(Exception):
    """The message says what does not work, with the last lines of what was printed."""


def main() -> int:
    arguments = _arguments()
    try:
        wheel = build()
    except Unproved as exc:
        print(exc, file=sys.stderr)
        return 1
    rows = []
    for extra in EXTRAS:
        if arguments.only in (None, extra.name):
            print(f"{extra.label} …", file=sys.stderr)
            rows.append(prove(extra, wheel, is_lowest=arguments.lowest))
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
    with tempfile.TemporaryDirectory(prefix="vp-dist-") as folder:
        _copy_tracked(Path(folder))
        _run([str(UV), "build", "--quiet", "--out-dir", str(DIST), folder], cwd=folder)
    [wheel] = DIST.glob("*.whl")
    _check_whole(wheel)
    return wheel


def _copy_tracked(folder: Path) -> None:
    for name in _tracked("."):
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, target)


def _tracked(under: str) -> list[str]:
    told = subprocess.run(
        ["git", "ls-files", "-z", under], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return [name for name in told.stdout.split("\0") if name and (ROOT / name).exists()]


def _check_whole(wheel: Path) -> None:
    """Raises Unproved if a tracked file of a package, or one that is copied to its place where
    nova-vp is installed, is not in the wheel; or if the guide cannot be followed in the source
    distribution."""
    with zipfile.ZipFile(wheel) as opened:
        packed = {name.partition(DATA)[2] or name for name in opened.namelist()}
    of_packages = {name.removeprefix("api/") for one in PACKAGES for name in _tracked(one)}
    to_copy = set(_tracked("etc/nova-vp"))
    installed = {name.removeprefix("etc/nova-vp/") for name in to_copy} - OF_THE_CLONE
    if missing := sorted((of_packages | installed) - packed):
        raise Unproved(f"not in {wheel.name}; name them in setup.cfg: {', '.join(missing)}")
    [source] = DIST.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    if missing := sorted((to_copy | {"constraints.txt"}) - packed):
        raise Unproved(f"not in {source.name}; name them in MANIFEST.in: {', '.join(missing)}")


def prove(extra: Extra, wheel: Path, *, is_lowest: bool) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="vp-dist-") as name:
        folder = Path(name)
        problem = ""
        try:
            _install(extra, wheel, folder / "venv", is_lowest=is_lowest)
            _use(extra, folder)
        except Unproved as exc:
            problem = str(exc)
        return {"extra": extra.label, **_sizes(folder / "venv"), "problem": problem}


def _install(extra: Extra, wheel: Path, venv: Path, *, is_lowest: bool) -> None:
    wanted = [f"nova-vp[{extra.name}] @ {wheel.as_uri()}", *extra.beside]
    options = []
    if is_lowest:
        wanted += _required(wheel, extra.name)
        options = ["--resolution", "lowest-direct"]
    _run([str(UV), "venv", "--quiet", "--python", PYTHON, str(venv)])
    if extra.is_of_distribution:
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
    found = [*OF_DISTRIBUTION.glob("*libvirt*")]
    if not found:
        raise Unproved("python3-libvirt is not installed; run `make dist`, which installs it")
    for path in found:
        (modules / path.name).symlink_to(path)


def _use(extra: Extra, folder: Path) -> None:
    programs = folder / "venv" / "bin"
    python = str(programs / "python")
    left_out = json.dumps([*NOT_IMPORTED])
    _run([python, "-c", IS_ABSENT, *extra.absent], cwd=str(folder))
    _run([python, "-c", IMPORT_ALL, left_out, json.dumps(extra.modules)], cwd=str(folder))
    for program, *words in extra.commands:
        _run([str(programs / program), *_configuration(program, folder), *words], cwd=str(folder))


def _configuration(program: str, folder: Path) -> Iterable[str]:
    """vp-manage gets a database, since it works with none but its own."""
    if program != "vp-manage":
        return ()
    path = folder / "nova-vp.conf"
    path.write_text(f"[database]\nconnection = sqlite:///{folder}/nova-vp.sqlite\n")
    return ("--config-file", str(path))


def _run(argv: list[str], cwd: str = "/") -> None:
    """Where no clone is on the path. Raises Unproved."""
    environment = {name: value for name, value in os.environ.items() if name not in OF_CLONES}
    done = subprocess.run(
        argv,
        cwd=cwd,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    if done.returncode:
        last = "\n".join(done.stdout.splitlines()[-LAST_LINES:])
        command = shorten(" ".join(argv), MOST_LETTERS)
        raise Unproved(f"`{command}` ended with {done.returncode}:\n{last}")


def _sizes(venv: Path) -> dict[str, Any]:
    """Without bytecode."""
    packages = list(venv.glob("lib/python*/site-packages/*.dist-info"))
    files = [
        path.stat().st_size for path in venv.rglob("*") if path.is_file() and path.suffix != ".pyc"
    ]
    return {"packages": len(packages), "mib": round(sum(files) / MIB, 1)}


def table(rows: list[dict[str, Any]]) -> str:
    lines = [f"{'extra':<24} {'packages':>8} {'MiB':>7}  proved"]
    for row in rows:
        proved = "no" if row["problem"] else "yes"
        lines.append(f"{row['extra']:<24} {row['packages']:>8} {row['mib']:>7}  {proved}")
    lines += [f"\n{row['extra']}: {row['problem']}" for row in rows if row["problem"]]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
