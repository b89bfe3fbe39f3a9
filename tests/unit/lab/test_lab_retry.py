# SPDX-License-Identifier: Apache-2.0
"""Which lab tests are repeated and which runs fail, without any lab."""

import subprocess
import sys

import pytest

from testbed.lab import settings
from tests.lab import outcomes, retry
from tests.lab import run as runner
from tests.lab.retry import FAILED, PASSED, SKIPPED, Run

A, B, C = FILES = ("lab/a.py", "lab/b.py", "lab/c.py")
OK, SOME_FAILED = 0, 1


def results(file: str, *verdicts: str) -> dict[str, str]:
    return {f"{file}::test_{number}": verdict for number, verdict in enumerate(verdicts, 1)}


GOOD_A, GOOD_B, GOOD_C = (results(file, PASSED, PASSED) for file in FILES)
BAD_A, BAD_B, BAD_C = (results(file, PASSED, FAILED) for file in FILES)


class Lab:
    """Answers attempts by a script and notes what it is asked for."""

    def __init__(self, *script):
        self._script = iter(script)
        self.asked = []
        self.fresh = 0

    def attempt(self, run, number):
        self.asked.append((run.files, run.stops_at_failure))
        found, *status = next(self._script)
        return found, *(status or [SOME_FAILED if FAILED in found.values() else OK])

    def make_fresh(self):
        self.fresh += 1


def play(*script):
    lab = Lab(*((found,) for found in script))
    run, is_complete = runner.attempt_all(Run(FILES), lab.attempt, lab.make_fresh)
    assert is_complete
    return run, lab


def test_without_a_failure_there_is_one_attempt():
    run, lab = play({**GOOD_A, **GOOD_B, **GOOD_C})
    assert (lab.asked, lab.fresh) == ([(FILES, True)], 0)
    assert retry.closing_line(run.outcomes, ()) == "6 passed, 0 failed"
    assert retry.flaky(run) == []


def test_a_failed_file_is_repeated_as_a_whole_on_a_fresh_lab_and_the_rest_after_it():
    run, lab = play({**GOOD_A, **BAD_B}, {**GOOD_B, **GOOD_C})
    assert (lab.asked, lab.fresh) == ([(FILES, True), ((B, C), True)], 1)
    assert run.repeated == (f"{B}::test_2",)
    assert retry.flaky(run) == [f"{B}::test_2"]
    assert retry.objections(run, {}) == {}
    assert retry.closing_line(run.outcomes, ()) == "6 passed, 0 failed"


def test_a_file_that_fails_twice_has_failed_and_the_rest_runs_once():
    run, lab = play({**GOOD_A, **BAD_B}, results(B, FAILED), {**BAD_C})
    assert lab.asked == [(FILES, True), ((B, C), True), ((C,), False)]
    assert retry.flaky(run) == []
    assert retry.failed_of(run.outcomes) == [f"{B}::test_1", f"{C}::test_2"]
    assert retry.closing_line(run.outcomes, ()) == "3 passed, 2 failed"


def test_the_last_file_that_fails_twice_ends_the_run():
    run, lab = play({**GOOD_A, **GOOD_B, **BAD_C}, BAD_C)
    assert lab.fresh == 1
    assert retry.failed_of(run.outcomes) == [f"{C}::test_2"]


def test_two_repeated_tests_fail_the_run_though_they_pass_then():
    run, lab = play(BAD_A, {**GOOD_A, **BAD_B}, {**GOOD_B, **GOOD_C})
    assert [stops for _, stops in lab.asked] == [True, True, False]
    objections = retry.objections(run, {})
    assert list(objections) == [f"{A}::test_2", f"{B}::test_2"]
    assert set(objections.values()) == {"2 tests were repeated in this run, which is too many"}
    assert retry.closing_line(run.outcomes, objections) == "4 passed, 2 failed"


def test_a_third_failure_is_not_repeated():
    run, lab = play(BAD_A, {**GOOD_A, **BAD_B}, {**GOOD_B, **BAD_C})
    assert len(lab.asked) == 3
    assert retry.failed_of(run.outcomes) == [f"{C}::test_2"]


def test_an_attempt_that_is_broken_off_ends_the_run():
    run = retry.after(Run(FILES), BAD_A, is_complete=False)
    assert (run.files, run.repeated) == ((), ())
    again = retry.after(Run(FILES), BAD_A, is_complete=True)
    run = retry.after(again, results(A, PASSED), is_complete=False)
    assert run.repeated == (f"{A}::test_2",)
    assert retry.flaky(run) == [], "nobody knows whether it would have passed"


@pytest.mark.parametrize(
    ("label", "found", "status"),
    [
        ("an interrupt", GOOD_A, 2),
        ("an interrupt after a failure", BAD_A, 2),
        ("an import error", {A: FAILED}, 2),
        ("no tests", {}, 5),
        ("a failure outside of tests", GOOD_A, 1),
        ("killed", {}, -9),
    ],
)
def test_a_pytest_that_does_not_come_to_its_end_ends_the_run(label, found, status):
    lab = Lab((found, status))
    run, is_complete = runner.attempt_all(Run(FILES), lab.attempt, lab.make_fresh)
    assert (run.files, is_complete, lab.fresh) == ((), False, 0), label


def flaky_run(test: str) -> Run:
    return Run((), {**GOOD_A, **GOOD_B}, (test,))


@pytest.mark.parametrize(
    ("label", "before", "is_objected"),
    [
        ("never", {}, False),
        ("another test of the file", {A: [f"{A}::test_1"]}, False),
        ("in the last run", {A: ["", f"{A}::test_2"]}, True),
        ("four runs ago", {A: [f"{A}::test_2", "", "", ""]}, True),
        ("five runs ago", {A: [f"{A}::test_2", "", "", "", ""]}, False),
        ("while another file had runs of its own", {A: [f"{A}::test_2"], B: [""] * 5}, True),
    ],
)
def test_a_test_is_repeated_once_in_five_runs(label, before, is_objected):
    assert bool(retry.objections(flaky_run(f"{A}::test_2"), before)) is is_objected, label


def test_the_last_runs_of_each_file_are_remembered():
    before = {A: ["", "", "", "", f"{A}::test_1"], C: [f"{C}::test_1"]}
    after = retry.remember(before, flaky_run(f"{A}::test_2"))
    assert after == {
        A: ["", "", "", f"{A}::test_1", f"{A}::test_2"],
        B: [""],
        C: [f"{C}::test_1"],
    }


def test_skipped_tests_are_counted_apart():
    found = results(A, PASSED, SKIPPED, FAILED)
    assert retry.closing_line(found, ()) == "1 passed, 1 failed, 1 skipped"


def test_the_history_is_kept_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.delenv(runner.HISTORY_VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert str(runner.history_path()) == "/somewhere/nova-vp/lab-history.json"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert str(runner.history_path()) == "/home/somebody/.cache/nova-vp/lab-history.json"
    monkeypatch.setenv(runner.HISTORY_VARIABLE, str(tmp_path / "kept"))
    assert runner.history_path() == tmp_path / "kept"


def test_a_history_is_read_as_it_was_written(tmp_path):
    path = tmp_path / "new folder" / "history.json"
    assert runner.read_history(path) == {}
    runner.write_history(path, {A: ["", f"{A}::test_1"]})
    assert runner.read_history(path) == {A: ["", f"{A}::test_1"]}


@pytest.mark.parametrize("text", ["", "{", "[1]", "7", '{"a": 7}', '{"a": null}', "\0"])
def test_a_history_that_makes_no_sense_is_none(tmp_path, text):
    (tmp_path / "history.json").write_text(text)
    assert runner.read_history(tmp_path / "history.json") == {}


def test_a_history_that_cannot_be_kept_is_told(tmp_path, capsys):
    (tmp_path / "file").touch()
    runner.write_history(tmp_path / "file" / "history.json", {})
    assert "is not kept in" in capsys.readouterr().out


def test_what_is_printed_at_the_end(capsys):
    run = Run((), {**GOOD_A, **BAD_B, **results(C, SKIPPED)}, (f"{A}::test_2",))
    assert runner.conclude(run, {}) is False
    assert capsys.readouterr().out.splitlines() == [
        "",
        f"lab tests, logs in {runner.FOLDER}:",
        f"flaky: {A}::test_2 failed in attempt-1/ and passed in attempt-2/",
        f"failed: {B}::test_2",
        "3 passed, 1 failed, 1 skipped",
    ]


TESTS = """
import pytest

@pytest.fixture
def broken():
    raise RuntimeError

@pytest.fixture
def broken_later():
    yield
    raise RuntimeError

def test_good(): pass
def test_bad(): assert False
def test_skipped(): pytest.skip()
def test_setup(broken): pass
def test_teardown(broken_later): pass
@pytest.mark.parametrize("text", ["a b"])
def test_named(text): pass
"""


def record(folder, text):
    (folder / "test_some.py").write_text(text)
    argv = [sys.executable, "-m", "pytest", "-p", outcomes.__name__]
    argv += ["--rootdir", str(folder), "--outcomes", "outcomes", "test_some.py"]
    environment = {"PYTHONPATH": str(settings.ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    subprocess.run(argv, cwd=folder, env=environment, stdout=subprocess.DEVNULL, check=False)
    return outcomes.read(folder / "outcomes")


def test_pytest_writes_down_every_outcome(tmp_path):
    assert record(tmp_path, TESTS) == {
        "test_some.py::test_good": PASSED,
        "test_some.py::test_bad": FAILED,
        "test_some.py::test_skipped": SKIPPED,
        "test_some.py::test_setup": FAILED,
        "test_some.py::test_teardown": FAILED,
        "test_some.py::test_named[a b]": PASSED,
    }


def test_a_file_that_cannot_be_imported_failed(tmp_path):
    assert record(tmp_path, "import nothing_of_that_name") == {"test_some.py": FAILED}


def test_every_turn_has_what_is_promised_and_in_turn_every_other_file_comes(monkeypatch):
    folder = settings.ROOT / "tests/lab"
    promised = [folder / name for name in runner.PROMISED]
    found = set()
    for commits in range(runner.PARTS * len(runner.LONG)):
        monkeypatch.setattr(
            runner, "in_turn", lambda files, parts, at=commits: files[at % parts :: parts]
        )
        turn = runner.files_of(folder, is_turn=True)
        assert turn[: len(promised)] == promised
        assert len({folder / name for name in runner.LONG} & set(turn)) == 1
        found |= set(turn)
    everything = {*runner.files_of(folder, is_turn=False), *(folder / name for name in runner.LONG)}
    assert found == everything
    assert all(file.exists() for file in found)
