# SPDX-License-Identifier: Apache-2.0
"""`openstack vp health list`, `option list` and `rule list` against the real application."""

import pytest


def test_health(lab):
    rows = {row["Check"]: row for row in lab.run("vp health list -f json").json}
    assert rows["hosts:reports"]["Status"] == "warn"
    assert "1 of 2 hosts do not report" in rows["hosts:reports"]["Detail"]
    table = lab.run("vp health list").out
    assert max(map(len, table.splitlines())) <= 100


def test_options(lab):
    rows = {row["Option"]: row for row in lab.run("vp option list -f json").json}
    one = rows["[policy] strict_max_hurt_ratio"]
    assert one["Value"] == one["Default"] == 0.05
    assert max(map(len, lab.run("vp option list").out.splitlines())) <= 100
    assert lab.run("vp option list --changed -f json").json == [], "no file sets any"


def test_rules(lab):
    rows = {row["Rule"]: row for row in lab.run("vp rule list -f json").json}
    assert rows["nova_vp:modes:set"]["Default"] == "yes"
    assert max(map(len, lab.run("vp rule list").out.splitlines())) <= 100


@pytest.mark.parametrize("command", ["health list", "option list", "rule list"])
def test_they_are_for_operators(lab, command):
    assert lab.run(f"vp {command}", user="member").rc == 1
