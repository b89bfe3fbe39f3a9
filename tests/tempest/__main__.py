# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.tempest` (`make tempest`): tempest's compute tests twice, each on a fresh lab,
without ours and with it, and then our plugin's; the same tests must pass, none may be skipped.
"""

import argparse
import json
import sys
from collections import Counter
from collections.abc import Iterable
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.bench.harness import progress
from tests.tempest import cloud, runner
from tests.tempest.stages import OURS, STAGES, Stage

Outcomes = dict[str, str]
"""By stage and test: passed, failed or skipped."""
KINDS = ("passed", "failed", "skipped")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--json", action="store_true", help="the numbers alone, as JSON")
    parser.add_argument("--stage", help="only stages with this in their name")
    parser.add_argument("--only", choices=("with", "without"), help="one of both runs")
    arguments = parser.parse_args()
    wanted = arguments.stage or ""
    tempest = runner.Tempest.installed()
    runs, judged, ours = {}, {}, {}
    for name in ("without", "with"):
        if arguments.only in (None, name):
            with cloud.fresh_lab(with_ours=name == "with"):
                references = cloud.references()
                runs[name] = outcomes_of(tempest, STAGES, wanted, references, name)
                judged[name] = cloud.times_judged()
                if name == "with":
                    ours = outcomes_of(tempest, OURS, wanted, references, name)
    result = compare(runs, judged, ours)
    print(json.dumps(result)) if arguments.json else show(result)
    return 0 if result["good"] else 1


def outcomes_of(
    tempest: runner.Tempest,
    stages: Iterable[Stage],
    wanted: str,
    references: dict[str, str],
    label: str,
) -> Outcomes:
    return {
        f"{stage.name}: {test}": outcome
        for stage in stages
        if wanted in stage.name
        for test, outcome in tempest.run(stage, references, label).items()
    }


def compare(runs: dict[str, Outcomes], judged: dict[str, int], ours: Outcomes) -> dict[str, Any]:
    """`judged`: how often our weigher ranked hosts; a cloud that behaves the same because ours was
    not there proves nothing. `ours`: of our plugin's tests, which only one of both runs can have.
    """
    counts = {name: counted(outcomes) for name, outcomes in runs.items()}
    tests = sorted(set().union(*runs.values()))
    different = {
        test: found
        for test in tests
        if len(set((found := {name: runs[name].get(test, "absent") for name in runs}).values())) > 1
    }
    was_there = all(bool(times) is (name == "with") for name, times in judged.items())
    failed = {
        name: [test for test, outcome in found.items() if outcome != "passed"]
        for name, found in {**runs, "our plugin": ours}.items()
    }
    return {
        "runs": {name: {**counts[name], "times_judged": judged[name]} for name in runs},
        "ours": counted(ours),
        "different": different,
        "not_passed": failed,
        "good": bool(tests or ours) and was_there and not different and not any(failed.values()),
    }


def counted(outcomes: Outcomes) -> dict[str, Any]:
    """In all, and of live migrations."""
    live = [outcome for test, outcome in outcomes.items() if test.startswith("live migration")]
    all_of_it = {kind: [*outcomes.values()].count(kind) for kind in KINDS}
    return {**all_of_it, "live_migrations_passed": Counter(live)["passed"]}


def show(result: dict[str, Any]) -> None:
    table = Table(title="tempest on the lab, without nova-vp and with it")
    table.add_column("")
    for name in result["runs"]:
        table.add_column(name, justify="right")
    for row in ("passed", "failed", "skipped", "live_migrations_passed", "times_judged"):
        table.add_row(row.replace("_", " "), *(str(run[row]) for run in result["runs"].values()))
    console = Console()
    console.print(table)
    console.print("our plugin: " + ", ".join(f"{result['ours'][kind]} {kind}" for kind in KINDS))
    for name, tests in result["not_passed"].items():
        for test in tests:
            console.print(f"{name}, not passed: {test}", markup=False)
    for test, found in result["different"].items():
        console.print(f"different: {test}: {found}", markup=False)


if __name__ == "__main__":
    progress("tempest: about half an hour; see .cache/tempest/workspace/*/tempest.log")
    sys.exit(main())
