# SPDX-License-Identifier: Apache-2.0
"""Which lab tests are repeated, and what a run of them comes to. No process, file or clock here.

A failed test is repeated once, on a fresh lab. The tests of one file share servers and depend on
their order. Therefore an attempt stops at its first failure, and the next attempt begins with the
whole file of the failed test. That test alone counts as repeated: what would have failed after it
is not known.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
MOST_REPEATED = 2
"""So many repeated tests fail the run; no further test is repeated then."""
RUNS = 5
"""A test that is repeated twice within so many runs of its file fails the run."""

Outcomes = Mapping[str, str]
"""By test, as pytest names it, in the order of the run."""
History = Mapping[str, Sequence[str]]
"""By test file: of its last runs, the test that was repeated, or an empty string."""


def file_of(test: str) -> str:
    return test.partition("::")[0]


def failed_of(outcomes: Outcomes) -> list[str]:
    return [test for test, outcome in outcomes.items() if outcome == FAILED]


@dataclass(frozen=True, slots=True)
class Run:
    """What is done and what is left of one run."""

    files: tuple[str, ...]
    """Those that are not finished."""
    outcomes: Outcomes = field(default_factory=dict)
    """Of finished files: those of the last attempt."""
    repeated: tuple[str, ...] = ()

    @property
    def stops_at_failure(self) -> bool:
        """Not if the run fails in any case. Then every test that is left runs once."""
        return len(self.repeated) < MOST_REPEATED and not failed_of(self.outcomes)


def after(run: Run, attempt: Outcomes, *, is_complete: bool) -> Run:
    """The run after an attempt at all files that were left. One that was broken off, by an
    interrupt or by a file that cannot be imported, ends the run."""
    failed = failed_of(attempt)
    if not is_complete or not failed or not run.stops_at_failure:
        return Run((), {**run.outcomes, **attempt}, run.repeated)
    file = file_of(failed[0])
    rest = run.files[run.files.index(file) + 1 :]
    if any(file_of(test) == file for test in run.repeated):
        return Run(rest, {**run.outcomes, **attempt}, run.repeated)
    finished = {test: outcome for test, outcome in attempt.items() if file_of(test) != file}
    return Run((file, *rest), {**run.outcomes, **finished}, (*run.repeated, failed[0]))


def flaky(run: Run) -> list[str]:
    """Repeated tests that ran again, without any failure in their file."""
    failed_files = {file_of(test) for test in failed_of(run.outcomes)}
    again = [test for test in run.repeated if test in run.outcomes]
    return [test for test in again if file_of(test) not in failed_files]


def objections(run: Run, history: History) -> dict[str, str]:
    """Flaky tests that fail the run all the same, and why."""
    if len(run.repeated) >= MOST_REPEATED:
        why = f"{len(run.repeated)} tests were repeated in this run, which is too many"
        return dict.fromkeys(flaky(run), why)
    why = f"it was repeated before within the last {RUNS} runs"
    return {test: why for test in flaky(run) if test in _runs_before(history, test)}


def _runs_before(history: History, test: str) -> Sequence[str]:
    return history.get(file_of(test), ())[-(RUNS - 1) :]


def remember(history: History, run: Run) -> History:
    """With this run, for the files that ran."""
    repeated = {file_of(test): test for test in run.repeated}
    files = dict.fromkeys(map(file_of, run.outcomes))
    now = {file: [*history.get(file, ()), repeated.get(file, "")][-RUNS:] for file in files}
    return {**history, **now}


def closing_line(outcomes: Outcomes, objected: Iterable[str]) -> str:
    """CI reads it. A flaky test that fails the run counts as failed."""
    counts = Counter({**outcomes, **dict.fromkeys(objected, FAILED)}.values())
    skipped = f", {counts[SKIPPED]} skipped" if counts[SKIPPED] else ""
    return f"{counts[PASSED]} passed, {counts[FAILED]} failed{skipped}"
