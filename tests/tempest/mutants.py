# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.tempest.mutants` (`make tempest-mutants`): faults planted in the vp-api of the
lab, one at a time, in a copy that its process imports. Our plugin must pass without and fail with
each.
"""

import argparse
import json
import shutil
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace

from rich.console import Console
from rich.table import Table

from testbed.lab import cloud, processes, settings
from testbed.lab.processes import CONTROLLER
from testbed.lab.supervise import Service, write_atomically
from tests.bench.harness import progress
from tests.tempest import runner
from tests.tempest.cloud import fresh_lab, references
from tests.tempest.faults import FAULTS, TESTS, Fault
from tests.tempest.stages import Stage

SOURCE = settings.ROOT / "api" / "vp_api"
COPY = settings.CACHE / "tempest-mutant"
API = "vp-api"
URL = f"http://{settings.CONTROLLER_IP}:{settings.VP_API_PORT}/"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition(":")[0])
    parser.add_argument("--json", action="store_true", help="the result alone, as JSON")
    parser.add_argument("--only", default="", help="faults with this in their name")
    arguments = parser.parse_args()
    faults = [fault for fault in FAULTS if arguments.only in fault.name]
    tempest = runner.Tempest.installed()
    with fresh_lab(with_ours=True):
        made = references()
        failed = {"nothing is planted": failures(tempest, made, "no fault", TESTS)}
        for fault in faults:
            with planted(fault):
                failed[fault.name] = failures(tempest, made, fault.name, fault.include)
    result = judged(failed)
    print(json.dumps(result)) if arguments.json else show(result)
    return 0 if result["good"] else 1


def failures(tempest: runner.Tempest, made: dict[str, str], name: str, include: str) -> list[str]:
    outcomes = tempest.run(Stage(name, (include,)), made, "mutant")
    return [test for test, outcome in outcomes.items() if outcome != "passed"]


def judged(failed: dict[str, list[str]]) -> dict[str, object]:
    """The first is what fails without a fault, which must be nothing."""
    (_, without), *faults = failed.items()
    found = {name: tests for name, tests in faults if tests}
    return {
        "failed": failed,
        "found": len(found),
        "planted": len(faults),
        "good": bool(faults) and not without and len(found) == len(faults),
    }


@contextmanager
def planted(fault: Fault) -> Iterator[None]:
    """vp-api runs with the fault, and afterwards as before."""
    shutil.rmtree(COPY, ignore_errors=True)
    shutil.copytree(SOURCE, COPY / SOURCE.name)
    path = COPY / SOURCE.name / fault.file
    path.write_text(path.read_text().replace(fault.text, fault.planted))
    file = processes.control_folder(CONTROLLER) / "services" / f"{API}.json"
    before = Service.from_json(file.read_text())
    ours = f"{COPY}:{before.environment['PYTHONPATH']}"
    try:
        _run_as(replace(before, environment={**before.environment, "PYTHONPATH": ours}))
        yield
    finally:
        _run_as(before)


def _run_as(service: Service) -> None:
    cloud.stop(API)
    file = processes.control_folder(CONTROLLER) / "services" / f"{API}.json"
    write_atomically(file, service.to_json())
    cloud.start(API)
    cloud.wait_for(_answers, f"{API} to answer", deadline_s=60, interval_s=0.2)


def _answers() -> bool:
    with suppress(OSError), urllib.request.urlopen(URL, timeout=5) as response:
        return bool(response.status == 200)
    return False


def show(result: dict[str, object]) -> None:
    table = Table(title="faults planted in vp-api, and the tests of our plugin that fail")
    table.add_column("fault")
    table.add_column("found by", overflow="fold")
    failed = result["failed"]
    assert isinstance(failed, dict)
    for name, tests in failed.items():
        table.add_row(name, "\n".join(test.rpartition(".")[2] for test in tests) or "nothing")
    console = Console()
    console.print(table)
    console.print(f"{result['found']} of {result['planted']} found")


if __name__ == "__main__":
    progress("tempest: about ten minutes; see .cache/tempest/workspace/*/tempest.log")
    sys.exit(main())
