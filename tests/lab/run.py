# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.lab.run [--turn | FILE...]` (`make lab-test`): the lab tests, file by file.

What is repeated after a failure is decided in `retry`. Each attempt is a pytest of its own, and
each after the first has a fresh lab. The logs of an attempt are in a folder of its own: pytest's
output, and the logs of the lab's services if something failed.
"""

import argparse
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from testbed.lab import cloud, settings
from tests.lab import outcomes, retry
from tests.lab.retry import History, Outcomes, Run
from tests.turns import in_turn

PROMISED = ("test_story.py", "test_demo.py")
"""What the README promises; they are part of every run."""
PARTS = 5
"""Of the other files, over as many commits."""
LONG = (
    *(f"long_{name}.py" for name in ("orphans", "escalation", "faults", "pairs", "traits")),
    "dashboard/long_views.py",
)
"""Of which one is part of each turn; each has a target of its own in the Makefile too."""
FOLDER = settings.CACHE / "lab-test"
"""Of the last run."""
HISTORY_VARIABLE = "NOVA_VP_LAB_HISTORY"
CHUNK_BYTES = 65536


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("file", nargs="*", type=Path, help="only these files of tests/lab")
    parser.add_argument(
        "--turn",
        action="store_true",
        help="the story and the demo; every fifth of the other files and of the long ones, "
        "in turn with each commit",
    )
    asked = parser.parse_args()
    files = asked.file or files_of(settings.ROOT / "tests" / "lab", is_turn=asked.turn)
    # pytest ends by itself on an interrupt, and takes the lab down.
    signal.signal(signal.SIGINT, lambda *_: None)
    shutil.rmtree(FOLDER, ignore_errors=True)
    run = Run(tuple(str(file.resolve().relative_to(settings.ROOT)) for file in files))
    commands = ("down", "up") if cloud.hosts() else ("down",)
    run, is_complete = attempt_all(run, attempt, lambda: make_fresh_lab(commands))
    history = read_history(history_path())
    write_history(history_path(), retry.remember(history, run))
    return 0 if conclude(run, history) and is_complete else 1


def files_of(folder: Path, *, is_turn: bool) -> list[Path]:
    files = sorted(folder.glob("test_*.py"))
    if not is_turn:
        return files
    others = [file for file in files if file.name not in PROMISED]
    long = [folder / name for name in LONG]
    promised = [folder / name for name in PROMISED]
    return [*promised, *in_turn(others, PARTS), *in_turn(long, len(long))]


def attempt_all(
    run: Run, attempt: Callable[[Run, int], tuple[Outcomes, int]], fresh: Callable[[], None]
) -> tuple[Run, bool]:
    """Until no file is left. The run at its end, and whether every pytest came to its own end."""
    for number in itertools.count(1):
        found, status = attempt(run, number)
        is_failed = bool(retry.failed_of(found))
        is_complete = status == (pytest.ExitCode.TESTS_FAILED if is_failed else pytest.ExitCode.OK)
        if not is_complete:
            print(f"pytest did not complete: it ended with status {status}", flush=True)
        run = retry.after(run, found, is_complete=is_complete)
        if not run.files:
            break
        print(f"attempt {number} failed; a fresh lab for {', '.join(run.files)}", flush=True)
        fresh()
    return run, is_complete


def make_fresh_lab(commands: Sequence[str]) -> None:
    """A lab that was up before the tests is brought up again; otherwise they do that."""
    for command in commands:
        subprocess.run([settings.LAB / "lab", command], check=True)


def attempt(run: Run, number: int) -> tuple[Outcomes, int]:
    folder = FOLDER / f"attempt-{number}"
    folder.mkdir(parents=True)
    argv = [sys.executable, "-m", "pytest", "-p", outcomes.__name__]
    argv += ["--outcomes", str(folder / "outcomes"), *run.files]
    if run.stops_at_failure:
        argv.append("--exitfirst")
    status = tee(argv, folder / "pytest.log")
    if status != 0 and settings.LOG.exists():
        with suppress(shutil.Error):  # A service that still runs may take a log away meanwhile.
            shutil.copytree(settings.LOG, folder / "services")
    return outcomes.read(folder / "outcomes"), status


def tee(argv: list[str], log: Path) -> int:
    with (
        log.open("wb") as file,
        subprocess.Popen(
            argv, cwd=settings.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        ) as process,
    ):
        assert process.stdout is not None
        while chunk := os.read(process.stdout.fileno(), CHUNK_BYTES):
            for to in (file, sys.stdout.buffer):
                to.write(chunk)
                to.flush()
    return process.returncode


def conclude(run: Run, history: History) -> bool:
    """Prints what the run came to; whether that is success."""
    objections = retry.objections(run, history)
    failed = retry.failed_of(run.outcomes)
    print(f"\nlab tests, logs in {FOLDER}:")
    for number, test in enumerate(run.repeated, 1):
        if test in retry.flaky(run):
            print(f"flaky: {test} failed in attempt-{number}/ and passed in attempt-{number + 1}/")
    for test, why in objections.items():
        print(f"failed: {test}: {why}")
    for test in failed:
        print(f"failed: {test}")
    print(retry.closing_line(run.outcomes, objections), flush=True)
    return not (failed or objections)


def history_path() -> Path:
    """Outside the clone: CI makes a new one for each run."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    usual = f"{cache}/nova-vp/lab-history.json"
    return Path(os.environ.get(HISTORY_VARIABLE) or usual)


def read_history(path: Path) -> History:
    """Empty if there is none, or none that can be read: that fails no run."""
    try:
        found = json.loads(path.read_text())
        return {file: [str(test) for test in tests] for file, tests in found.items()}
    except (OSError, ValueError, AttributeError, TypeError) as exc:
        print(f"no history of repeated lab tests in {path}: {exc}")
        return {}


def write_history(path: Path, history: History) -> None:
    fresh = path.with_suffix(".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh.write_text(json.dumps(history, indent=1))
        fresh.replace(path)
    except OSError as exc:
        print(f"the history of repeated lab tests is not kept in {path}: {exc}")


if __name__ == "__main__":
    sys.exit(main())
