# SPDX-License-Identifier: Apache-2.0
"""`make rules` on a tree made up for it: which rules a test holds, and which it does not."""

import json
import subprocess
from pathlib import Path

import pytest

from tests.rules.__main__ import WIDTH, main

CODE = "nova_vp/core/controllers/capper/controller.py"
FOLDER = "tests/unit/core/controllers/capper"
FILES = {
    "nova_vp/__init__.py": "",
    "nova_vp/core/__init__.py": "",
    "nova_vp/core/controllers/__init__.py": "",
    "nova_vp/core/controllers/capper/__init__.py": "",
    CODE: "def cap(used):\n    return max(0.5, used - 0.1)\n",
    f"{FOLDER}/test_caps.py": """
from nova_vp.core.controllers.capper.controller import cap


def test_a_step_is_a_tenth():
    assert cap(1.0) == 0.9


def test_nothing():
    assert cap(1.0) < 1.0


def test_that_fails():
    assert cap(1.0) == 0.8
""",
}
STEP = {"name": "A step is a tenth", "text": "used - 0.1", "disabled": "used - 0.2"}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    return tmp_path


def declare(tree: Path, *rules: dict[str, str]) -> None:
    rows = []
    for rule in rules:
        plain = {"source": "ours", "file": CODE, "test": "test_caps.py::test_a_step_is_a_tenth"}
        pairs = {**plain, **STEP, **rule}.items()
        rows.append("[[rule]]\n" + "\n".join(f"{key} = {json.dumps(text)}" for key, text in pairs))
    (tree / FOLDER / "rules.toml").write_text("\n\n".join(rows))
    subprocess.run(["git", "-C", tree, "add", "-A"], check=True)


def results(tree: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, str]]:
    status = main(["--json"], tree)
    told = json.loads(capsys.readouterr().out)
    assert told["good"] is (status == 0)
    return status, {one["rule"]: one["result"] for one in told["rules"]}


def test_a_rule_whose_test_fails_without_it_is_held(tree, capsys):
    declare(tree, {})
    assert results(tree, capsys) == (0, {"A step is a tenth": "red"})
    assert (tree / CODE).read_text() == FILES[CODE], "only a copy is changed"


def test_each_other_kind_of_rule_is_told_apart(tree, capsys):
    declare(
        tree,
        {},
        {"name": "held by nothing", "test": "test_caps.py::test_nothing"},
        {"name": "no such test", "test": "test_caps.py::test_gone"},
        {"name": "not true", "test": "test_caps.py::test_that_fails"},
        {"name": "no syntax", "disabled": "used -"},
        {"name": "it crashes", "disabled": "gone - 0.1"},
    )
    status, found = results(tree, capsys)
    assert status == 1
    assert found.pop("A step is a tenth") == "red"
    expected = {
        "held by nothing": "its test stays green",
        "no such test": "its test does not exist or cannot run",
        "not true": "its test fails with the rule, too",
        "no syntax": "its test cannot run without it",
        "it crashes": f"without it {CODE} breaks",
    }
    assert {name: said.partition(":")[0] for name, said in found.items()} == expected


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ([{"text": "used - 0.3"}], "A step is a tenth: its text is 0 times in"),
        ([{"text": "used"}], "A step is a tenth: its text is 2 times in"),
        (
            [{"file": "nova_vp/gone.py"}],
            "A step is a tenth: its text is 0 times in nova_vp/gone.py",
        ),
        ([{"why": "so"}], "A step is a tenth: it has ["),
        ([{}, {}], "capper: two rules are 'A step is a tenth'"),
        ([], "capper: it has no rules"),
    ],
)
def test_what_is_declared_wrongly_is_said_before_anything_runs(tree, capsys, rules, said):
    declare(tree, *rules)
    assert main([], tree) == 1
    assert said in capsys.readouterr().err


def test_a_controller_without_the_file_has_no_rules(tree, capsys):
    assert main([], tree) == 1
    assert "capper: it has no rules" in capsys.readouterr().err


def test_one_rule_alone_and_the_table_that_people_read(tree, capsys):
    declare(tree, {}, {"name": "held by nothing", "test": "test_caps.py::test_nothing"})
    assert main(["--only", "is a tenth"], tree) == 0
    told = capsys.readouterr()
    assert "1 rules, 1 red" in told.out
    assert "controllers/capper/controller.py:2" in told.out
    assert "1/1 red: A step is a tenth" in told.err
    assert all(len(line) <= WIDTH for line in told.out.splitlines())
    assert main(["--only", "capper"], tree) == 1
    assert main(["--only", "of nobody"], tree) == 1
