# SPDX-License-Identifier: Apache-2.0
"""What Horizon reads of us is whole, without Horizon."""

import re
import runpy
from pathlib import Path

import pytest
import yaml

import vp_dashboard
from vp_api import policies

ROOT = Path(__file__).parents[3]
FOLDER = Path(vp_dashboard.__file__).parent
ENABLED = sorted((FOLDER / "enabled").glob("_*.py"))
TEMPLATES = sorted((FOLDER / "templates").rglob("*.html"))


def test_the_policy_files_are_those_of_vp_api():
    """If not: tools/make-dashboard-policies."""
    tool = runpy.run_path(str(ROOT / "tools/make-dashboard-policies"))
    for path, text in tool["texts"]().items():
        assert path.read_text() == text


def test_the_policy_file_changes_nothing():
    assert yaml.safe_load((FOLDER / "conf/vp_policy.yaml").read_text()) is None


def test_rules_that_panels_ask_for_exist():
    known = {rule.name for rule in policies.list_rules()}
    asked = set(re.findall(r'"(nova_vp:[\w:]+)"', (FOLDER / "policies.py").read_text()))
    assert asked <= known
    assert asked


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_have_no_inline_script_or_style(path):
    """A strict Content-Security-Policy refuses them."""
    text = path.read_text()
    assert not re.search(r"<script|<style|\sstyle=|\son\w+=|javascript:", text, re.IGNORECASE)
    assert "|safe" not in text
    assert "autoescape" not in text


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_forms_say_where_they_are_sent(path):
    """AngularJS, which Horizon has on every page, keeps those that do not from being sent."""
    for form in re.findall(r"<form[^>]*>", path.read_text()):
        assert " action=" in form


def test_enabled_files_name_classes_of_the_menu():
    texts = [path.read_text() for path in ENABLED]
    named = {found[1] for text in texts if (found := re.search(r'ADD_PANEL = "(.+)"', text))}
    source = {
        f"vp_dashboard.{side}.panels.{name}"
        for side in ("admin", "project")
        if (FOLDER / side / "panels.py").exists()
        for name in re.findall(r"^class (\w+)", (FOLDER / side / "panels.py").read_text(), re.M)
    }
    assert named == source
