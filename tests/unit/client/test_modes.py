# SPDX-License-Identifier: Apache-2.0
"""`openstack vp mode …` against the real application."""

import pytest

from nova_vp.cloud_modes import NOT_SET, CloudModes
from nova_vp.core.types.policy import Mode
from nova_vp.db.gate import NEVER_WRITTEN
from tests.unit.api import cloud

FIXED = CloudModes(Mode.ENFORCE, {"ssd": Mode.ENFORCE})


@pytest.fixture
def modes(lab, stored):
    """Those of the cloud and of aggregates; as they were afterwards."""
    yield lambda: stored.modes.changed_since(NEVER_WRITTEN)[1]
    lab.run("vp mode set enforce --all")
    lab.run("vp mode set enforce --aggregate ssd")


def test_modes_are_listed_with_the_hosts_that_have_them_from_there(lab):
    table = lab.run("vp mode list").words
    assert "cloud enforce 0 user-admin 2026-01-02T03:04:05Z" in table
    assert "aggregate ssd enforce 1 user-admin 2026-01-02T03:04:05Z" in table
    assert max(map(len, lab.run("vp mode list").out.splitlines())) <= 100
    assert lab.run("vp mode list -f json").json[1]["Hosts"] == 1


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("set observe --all", FIXED._replace(cloud=Mode.OBSERVE)),
        ("unset --all", FIXED._replace(cloud=None)),
        ("set advise --aggregate ssd", FIXED._replace(aggregates={"ssd": Mode.ADVISE})),
        ("unset --aggregate ssd", FIXED._replace(aggregates={})),
        (
            "set observe --aggregate 'rack 7/b'",
            FIXED._replace(aggregates={"rack 7/b": Mode.OBSERVE, "ssd": Mode.ENFORCE}),
        ),
    ],
)
def test_what_is_set_says_nothing_and_is_stored(lab, modes, command, told):
    ran = lab.run(f"vp mode {command}")
    assert (ran.rc, ran.out) == (0, ""), ran.err
    assert modes() == told
    lab.run("vp mode unset --aggregate 'rack 7/b'")


def test_an_aggregate_that_nova_does_not_have_is_a_warning(lab, modes):
    ran = lab.run("vp mode set observe --aggregate sdd")
    assert (ran.rc, ran.out) == (0, "")
    assert "Nova has no host aggregate sdd" in ran.err
    assert modes().aggregates["sdd"] is Mode.OBSERVE
    assert lab.run("vp mode unset --aggregate sdd").err == ""
    assert lab.run("vp mode set enforce --aggregate ssd").err == ""


def test_a_host_and_a_server(lab, stored):
    assert lab.run("vp mode set advise --host lab-1").out == ""
    assert lab.agents.modes == {"lab-1": "advise"}
    assert lab.run("vp mode unset --host lab-1").rc == 0
    assert lab.agents.modes == {"lab-1": NOT_SET}
    assert lab.run("vp mode set observe --server victim").rc == 0
    assert stored.overrides.get(cloud.VICTIM).mode is Mode.OBSERVE
    told = lab.run("vp mode show --server victim").words
    assert "levels enforce: set for the cloud" in told
    assert "observe: set for this server" in told
    assert lab.run("vp mode unset --server victim").rc == 0
    assert stored.overrides.get(cloud.VICTIM) is None


def test_where_a_mode_is_set(lab):
    told = lab.run("vp mode show --host lab-1").words
    assert "mode enforce source set for the host aggregate ssd" in told
    assert "levels enforce: set for the cloud enforce: set for the host aggregate ssd" in told
    assert lab.run("vp mode show --host lab-2").words.count("source unknown") == 1
    assert "mode enforce (set for the host aggregate ssd)" in lab.run("vp show victim").words
    assert "mode_source set for the host aggregate ssd" in lab.run("vp host show lab-1").words


@pytest.mark.parametrize("command", ["set enforce", "unset", "show", "set enforce --all --host x"])
def test_one_target_has_to_be_given(lab, command):
    assert lab.run(f"vp mode {command}").rc == 2


def test_no_tenant_may(lab, modes):
    ran = lab.run("vp mode set observe --all", user="member")
    assert ran.rc == 1
    assert "Your roles do not permit this" in ran.err
    assert modes() == FIXED
    ran = lab.run("vp mode show --server victim", user="member")
    assert ran.rc == 1
    assert "modes to operators only" in ran.err
