# SPDX-License-Identifier: Apache-2.0
"""Options of the DevStack plugin: each is on its page with its default, and in use."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
DEVSTACK = ROOT / "devstack"
SETTINGS = (DEVSTACK / "settings").read_text()
LIB = (DEVSTACK / "lib" / "nova-vp").read_text()
PLUGIN = (DEVSTACK / "plugin.sh").read_text()
OPTION = re.compile(r"^(VP_\w+)=(?:\$\{\1:-(.*)\}|\$\(trueorfalse (\w+) \1\))$", re.MULTILINE)
ROW = re.compile(r"^\| `(VP_\w+)` \|(?: `(.*?)`)? \|", re.MULTILINE)
SAMPLES = sorted(DEVSTACK.glob("local.conf*.sample"))


def test_each_option_is_documented_with_its_default():
    options = {name: text or truth for name, text, truth in OPTION.findall(SETTINGS)}
    rows = dict(ROW.findall((ROOT / "doc/source/devstack.md").read_text()))
    assert len(options) > 10
    assert rows == options


def test_each_option_is_used():
    for name, *_ in OPTION.findall(SETTINGS):
        assert re.search(rf"\$\{{?{name}\b|trueorfalse \w+ {name}\b", LIB), name


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_samples_set_options_that_exist(sample):
    known = {name for name, *_ in OPTION.findall(SETTINGS)}
    assert set(re.findall(r"^#?(VP_\w+)=", sample.read_text(), re.MULTILINE)) <= known


@pytest.mark.parametrize(
    "page", [*SAMPLES, ROOT / "doc/source/devstack.md"], ids=lambda path: path.name
)
def test_the_plugin_is_enabled_with_its_branch(page):
    """DevStack fetches `master` where none is named."""
    [line] = re.findall(r"^enable_plugin .*$", page.read_text(), re.MULTILINE)
    assert line == "enable_plugin nova-vp URL main"


def test_each_function_of_the_library_is_called():
    """By plugin.sh those that it names, by the library those that begin with an underscore."""
    made = re.findall(r"^function (\w+) \{", LIB, re.MULTILINE)
    assert len(made) > 20
    for name in made:
        calls = re.findall(rf"(?<!function )\b{name}\b", LIB if name[0] == "_" else PLUGIN)
        assert calls, name


def test_jobs_set_options_that_exist():
    known = {name for name, *_ in OPTION.findall(SETTINGS)}
    jobs = [entry["job"] for entry in yaml.safe_load((ROOT / ".zuul.yaml").read_text())[:-1]]
    set_by_jobs = {
        name
        for job in jobs
        for name in job["vars"].get("devstack_localrc", {})
        if name.startswith("VP_")
    }
    assert len(jobs) == 3
    assert set_by_jobs
    assert set_by_jobs <= known
