# SPDX-License-Identifier: Apache-2.0
"""The configuration that each recipe writes: its options exist, and its variables are defined."""

import importlib
import re
from pathlib import Path

import pytest
from oslo_db.options import list_opts as database_opts

from tests.options import LISTED, OF_OTHERS, OURS, by_name, is_option
from tests.unit.deploy.recipes import (
    KOLLA,
    OSA,
    SHARED,
    Setting,
    of_nova,
    of_ours,
    rendered,
    text_of,
)

pytestmark = pytest.mark.nova

KNOWN = LISTED | OF_OTHERS | by_name(database_opts())
ROLES = {"kolla-ansible": KOLLA, "openstack-ansible": OSA}
PASSWORDS = {"nova_vp_database_password", "nova_vp_galera_password", "nova_vp_keystone_password"}
OPTIONAL = {"nova_vp_policy_overrides"}
"""A deployer's own rules."""


@pytest.mark.parametrize(("recipe", "settings"), of_ours().items())
def test_every_option_of_nova_vp_conf_exists(recipe: str, settings: list[Setting]) -> None:
    assert settings
    assert {(group, name) for group, name, _ in settings} <= KNOWN, recipe


@pytest.mark.parametrize(("recipe", "settings"), of_nova().items())
def test_every_option_of_nova_exists(recipe: str, settings: list[Setting]) -> None:
    assert {group for group, _, _ in settings} >= {"filter_scheduler", "vp_scheduler", "bus"}
    assert [one for one in settings if not is_option(*one[:2])] == []


@pytest.mark.parametrize(("recipe", "settings"), [*of_ours().items(), *of_nova().items()])
def test_values_of_our_options_are_of_their_type(recipe: str, settings: list[Setting]) -> None:
    for group, name, value in settings:
        if (group, name) in OURS:
            OURS[group, name].type(value)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(("recipe", "settings"), of_nova().items())
def test_the_filter_and_the_weigher_exist_and_are_enabled(
    recipe: str, settings: list[Setting]
) -> None:
    lists: dict[str, list[str]] = {}
    for group, name, value in settings:
        if group == "filter_scheduler":
            lists.setdefault(name, []).extend(value.split(","))
    ours = [one for one in lists["available_filters"] if one.startswith("vp_")]
    assert [one.rpartition(".")[2] for one in ours] == lists["enabled_filters"][-1:]
    for path in [*ours, lists["weight_classes"][-1]]:
        module, _, name = path.rpartition(".")
        assert hasattr(importlib.import_module(module), name)


@pytest.mark.parametrize("path", sorted(SHARED.glob("*.j2")), ids=lambda path: path.name)
def test_a_file_that_is_written_begins_with_what_ansible_says(path: Path) -> None:
    assert text_of(path.name).startswith("# made by Ansible\n")


def test_a_compute_host_is_given_no_password() -> None:
    settings = rendered("nova-vp.conf.j2", nova_vp_is_controller=False)
    assert {group for group, _, _ in settings} == {"DEFAULT", "oslo_messaging_rabbit", "agent"}
    assert "SECRET" not in str(settings)


def test_a_controller_is_given_nothing_of_the_agent() -> None:
    settings = rendered("nova-vp.conf.j2", nova_vp_is_compute=False, nova_vp_broker_has_tls=False)
    assert not {"agent", "oslo_messaging_rabbit"} & {group for group, _, _ in settings}


def texts_of(*folders: Path) -> str:
    paths = [path for folder in folders for path in sorted(folder.rglob("*")) if path.is_file()]
    return "\n".join(path.read_text() for path in paths)


@pytest.mark.parametrize(("name", "folder"), ROLES.items())
def test_every_variable_that_is_used_is_defined(name: str, folder: Path) -> None:
    text = texts_of(SHARED, folder)
    code = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    defined = set(re.findall(r"^[ -]*(nova_vp_\w+):", code, re.M))
    defined |= set(re.findall(r"register: (nova_vp_\w+)", code))
    used = set(re.findall(r"\b(?<!\.)nova_vp_\w+", code))
    assert used - defined - OPTIONAL <= PASSWORDS
    assert len(used) > 30


@pytest.mark.parametrize(("name", "folder"), ROLES.items())
def test_every_password_is_named_to_the_deployer(name: str, folder: Path) -> None:
    used = set(re.findall(r"\{\{ (nova_vp_\w+_password) ", texts_of(SHARED, folder)))
    told = "\n".join(path.read_text() for path in folder.glob("*.yml"))
    assert used
    assert [one for one in used if one not in told] == []
