# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.nova_matrix [RELEASE...]` (`make nova-matrix`): each supported release of Nova.

Per release: the tests of what runs inside Nova, with threads and with eventlet, and a lab in which
its scheduler places servers. What has passed is not repeated while neither the source nor the
environment changed.
"""

import argparse
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from testbed.lab import up
from tests.nova_matrix import environments, lab_tests, plugin_tests
from tests.nova_matrix.environments import CACHE, PYTHON, RELEASES, ROOT, Environment

KEPT = CACHE / "nova-matrix"
TAKING_PART = ("nova_vp", "vp_agent", "vp_scheduler", "api", "etc", "testbed", "tests", "setup.cfg")
LAB = "lab"
STAGES = (*plugin_tests.PATCHING, LAB)
Row = dict[str, Any]


def main() -> int:
    arguments = _arguments()
    rows = []
    for release in arguments.releases:
        environment = Environment(release, arguments.python)
        environments.ensure(environment)
        rows.append(_row(environment, arguments))
    print(json.dumps(rows) if arguments.json else table(rows))
    return 0 if all(row["good"] for row in rows) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.nova_matrix", description=(__doc__ or "").partition("\n\n")[2]
    )
    parser.add_argument("releases", nargs="*", default=list(RELEASES), metavar="RELEASE")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--stage", action="append", choices=STAGES, help="only this one")
    parser.add_argument("--again", action="store_true", help="repeat what has passed, too")
    parser.add_argument("--python", type=Path, default=PYTHON, help="another interpreter")
    parser.add_argument("-k", dest="options", type=lambda text: ["-k", text], default=[])
    arguments = parser.parse_args()
    if unknown := set(arguments.releases) - set(RELEASES):
        parser.error(f"no such release: {', '.join(sorted(unknown))}; those are {[*RELEASES]}")
    if up.is_up() and LAB in (arguments.stage or STAGES):
        parser.error(
            "a lab is up: run `testbed/lab/lab down` first, each release has one of its own"
        )
    return arguments


def _row(environment: Environment, arguments: argparse.Namespace) -> Row:
    row: Row = {
        "nova": environments.version(environment, "nova"),
        "python": environments.python_version(environment),
    }
    possible = [*plugin_tests.concurrencies(environment), LAB]
    stages = [stage for stage in arguments.stage or STAGES if stage in possible]
    for stage in stages:
        row[stage] = kept(
            environment,
            stage,
            lambda stage=stage: _run(environment, stage, arguments.options),
            arguments,
        )
        print(f"nova {environment.name}, {stage}: {row[stage]}", file=sys.stderr, flush=True)
    return {**row, "good": all(_is_good(row[stage]) for stage in stages)}


def _run(environment: Environment, stage: str, options: Sequence[str]) -> Row:
    if stage == LAB:
        return lab_tests.run(environment, options)
    return plugin_tests.run(environment, stage, options)


def _is_good(found: Row) -> bool:
    return not found.get("failed")


def kept(
    environment: Environment, stage: str, run: Callable[[], Row], arguments: argparse.Namespace
) -> Row:
    if arguments.options:
        return run()
    file = KEPT / f"{environment.name}-{stage}.json"
    key = hashlib.sha256((environment.shape + _source()).encode()).hexdigest()
    if file.exists() and not arguments.again:
        former = json.loads(file.read_text())
        if former["key"] == key:
            return dict(former["found"])
    file.unlink(missing_ok=True)
    found = run()
    if _is_good(found):
        KEPT.mkdir(exist_ok=True)
        file.write_text(json.dumps({"key": key, "found": found}))
    return found


def _source() -> str:
    """What takes part: as it is in git, what was changed since, and which files are not in git."""
    git = [["ls-files", "--stage"], ["diff"], ["status", "--porcelain"]]
    return "".join(
        subprocess.run(
            ["git", *argv, "--", *TAKING_PART], cwd=ROOT, check=True, stdout=subprocess.PIPE
        ).stdout.decode()
        for argv in git
    )


def table(rows: list[Row]) -> str:
    columns = ("nova", "python", *STAGES)
    lines = [columns, *(_cells(row) for row in rows)]
    return "\n".join("  ".join(f"{cell:>9}" for cell in line).rstrip() for line in lines)


def _cells(row: Row) -> tuple[str, ...]:
    return (row["nova"], row["python"], *(_tests_text(row.get(stage)) for stage in STAGES))


def _tests_text(counts: Row | None) -> str:
    if counts is None:
        return "-"
    return "failed" if counts["failed"] else str(counts["passed"])


if __name__ == "__main__":
    sys.exit(main())
