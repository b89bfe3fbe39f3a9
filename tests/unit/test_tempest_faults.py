# SPDX-License-Identifier: Apache-2.0
"""Faults that are planted in vp-api for our tempest plugin, and what is made of its failures."""

import ast
import re
from pathlib import Path

import pytest

from tests.tempest.faults import FAULTS
from tests.tempest.mutants import SOURCE, judged

PLUGIN = Path(__file__).resolve().parents[2] / "vp_tempest_plugin"


def plugin_tests():
    for path in (PLUGIN / "tests").rglob("test_*.py"):
        module = ".".join(path.relative_to(PLUGIN.parent).with_suffix("").parts)
        for made in ast.parse(path.read_text()).body:
            if isinstance(made, ast.ClassDef):
                for one in made.body:
                    if isinstance(one, ast.FunctionDef) and one.name.startswith("test_"):
                        yield f"{module}.{made.name}.{one.name}"


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_each_fault_can_be_planted_and_names_tests_that_exist(fault):
    code = (SOURCE / fault.file).read_text()
    assert code.count(fault.text) == 1
    compile(code.replace(fault.text, fault.planted), fault.file, "exec")
    assert [test for test in plugin_tests() if re.search(fault.include, test)]


def test_there_are_ten_and_no_two_are_the_same():
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) == 10


@pytest.mark.parametrize(
    ("label", "failed", "is_good"),
    [
        ("each is found", {"none": [], "a": ["t"], "b": ["t", "u"]}, True),
        ("one is not found", {"none": [], "a": ["t"], "b": []}, False),
        ("the plugin fails anyway", {"none": ["t"], "a": ["t"]}, False),
        ("nothing was planted", {"none": []}, False),
    ],
)
def test_a_fault_is_found_by_a_test_that_passes_without_it(label, failed, is_good):
    assert judged(failed)["good"] is is_good, label
