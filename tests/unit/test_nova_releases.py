# SPDX-License-Identifier: Apache-2.0
"""What `make nova-matrix` runs: every test of what runs inside Nova, on each release."""

import argparse
import re
from pathlib import Path

import pytest

from tests.nova_matrix import __main__ as nova_matrix
from tests.nova_matrix.__main__ import Row
from tests.nova_matrix.environments import CURRENT, RELEASES, Environment
from vp_scheduler.nova_check import TESTED

ROOT = Path(__file__).parents[2]
PLUGINS = r"^(from|import) (vp_scheduler\.(filters|weighers|shared)|nova_vp\.compute|nova)\b"


def test_a_test_of_what_runs_in_novas_processes_says_so() -> None:
    files = [*(ROOT / "tests/unit").rglob("test_*.py"), *(ROOT / "tests/contract").rglob("*.py")]
    of_plugins = [path for path in files if re.search(PLUGINS, path.read_text(), re.MULTILINE)]
    assert of_plugins
    unmarked = [path for path in of_plugins if "pytest.mark.nova" not in path.read_text()]
    assert [str(path.relative_to(ROOT)) for path in unmarked] == []


@pytest.mark.parametrize("release", RELEASES)
def test_each_release_has_its_pins(release: str) -> None:
    assert re.search(rf"^nova=={release}\.", RELEASES[release].read_text(), re.MULTILINE)


def test_ours_is_the_newest_of_those_that_nova_check_calls_tested() -> None:
    assert [int(release) for release in RELEASES] == list(TESTED)
    assert [release for release, pins in RELEASES.items() if pins == CURRENT] == ["34"]


class Stage:
    """Stands for one that runs for minutes."""

    def __init__(self) -> None:
        self.found: Row = {"passed": 7, "failed": 0}
        self.count = 0

    def __call__(self) -> Row:
        self.count += 1
        return self.found


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found = ["as it was"]
    monkeypatch.setattr(nova_matrix, "KEPT", tmp_path)
    monkeypatch.setattr(nova_matrix, "_source", lambda: found[-1])
    return found


def kept(stage: Stage, again: bool = False, options: tuple[str, ...] = ()) -> Row:
    arguments = argparse.Namespace(again=again, options=options)
    return nova_matrix.kept(Environment("33"), "threads", stage, arguments)


def test_what_has_passed_is_not_repeated_while_the_source_is_the_same(source: list[str]) -> None:
    stage = Stage()
    assert kept(stage) == kept(stage) == stage.found
    assert stage.count == 1
    kept(stage, again=True)
    source.append("changed")
    kept(stage)
    kept(stage)
    assert stage.count == 3


def test_what_failed_or_was_a_choice_of_tests_is_repeated(source: list[str]) -> None:
    stage = Stage()
    kept(stage, options=("-k", "one"))
    stage.found = {"passed": 6, "failed": 1}
    kept(stage)
    kept(stage)
    assert stage.count == 3


def test_the_table_says_what_was_not_run_and_what_failed() -> None:
    rows = [
        {"nova": "31.3.1", "python": "3.11.2", "eventlet": {"passed": 7, "failed": 0}},
        {
            "nova": "34.0.0",
            "python": "3.11.2",
            "threads": {"failed": 2},
            "lab": {"passed": 6, "failed": 0},
        },
    ]
    cells = [line.split() for line in nova_matrix.table(rows).splitlines()[1:]]
    assert cells == [
        ["31.3.1", "3.11.2", "-", "7", "-"],
        ["34.0.0", "3.11.2", "failed", "-", "6"],
    ]


def test_an_environment_of_another_python_is_another_one() -> None:
    other = Environment("33", Path("/somewhere/bin/python3.13"))
    assert other.name == "33-python3.13"
    assert Environment("33").name == "33"
    assert other.shape != Environment("33").shape
