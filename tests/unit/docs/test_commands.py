# SPDX-License-Identifier: Apache-2.0
"""Each command that a page shows is one that our parsers and OpenStack's own take."""

import argparse
import re
import shlex
from collections.abc import Iterable
from typing import Any

import pytest

from tests.commands import OURS, of_openstack
from tests.unit.docs.pages import PAGES, inline, typed

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
"""Of openstackclient's modules."""


def begins_with(programs: Iterable[str], commands: Iterable[str]) -> list[str]:
    return sorted({one for one in commands if one.split(" ")[0] in programs})


def bare(command: str) -> str:
    """Without who runs it, where it lies, and where its output goes."""
    command = re.sub(r"^runuser -u nova-vp -- ", "", command)
    command = re.sub(r"^/[\w/-]+/bin/", "", command)
    return re.split(r" (?:\||>|#|&&) ?", command)[0].strip()


SHOWN = [bare(command) for command in typed()]
MENTIONED = [code for code in inline() if code not in ("openstack", "openstack vp")]


@pytest.mark.parametrize("command", begins_with(["openstack"], SHOWN))
def test_a_command_of_openstack_is_taken_as_shown(command: str) -> None:
    parser, words = of_openstack(shlex.split(command)[1:])
    parser.parse_args(words)


@pytest.mark.parametrize("command", begins_with(OURS, SHOWN))
def test_a_command_of_ours_is_taken_as_shown(command: str) -> None:
    program, *words = shlex.split(command)
    OURS[program].parse_args(words)


@pytest.mark.parametrize("command", begins_with(["openstack"], MENTIONED))
def test_a_command_that_is_mentioned_exists_and_has_these_options(command: str) -> None:
    parser, words = of_openstack(command.split()[1:])
    known = parser._option_string_actions
    assert [word for word in words if word.startswith("--") and word not in known] == []


@pytest.mark.parametrize("command", begins_with(OURS, MENTIONED))
def test_ours_that_are_mentioned_exist_and_have_these_options(command: str) -> None:
    program, *words = command.split()
    parser: Any = OURS[program]
    for word in words:
        inner = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
        if inner and not word.startswith("-"):
            assert word.split("|")[0] in inner[0].choices, word
            parser = inner[0].choices[word.split("|")[0]]
        elif word.startswith("--"):
            assert word in parser._option_string_actions, word


OPTIONS = re.findall(
    r"^\| `openstack (vp[a-z -]+[a-z])[^`]*` (\|.*--.*)$", PAGES["doc/source/cli.md"], re.M
)


@pytest.mark.parametrize(("command", "told"), OPTIONS)
def test_the_options_of_a_command_in_the_table_are_its_own(command: str, told: str) -> None:
    parser, _ = of_openstack(command.split())
    assert set(re.findall(r"--[a-z-]+", told)) <= set(parser._option_string_actions)


def test_there_are_commands() -> None:
    assert len(begins_with(["openstack"], SHOWN)) > 15
    assert len(begins_with(OURS, SHOWN)) > 10
    assert len(OPTIONS) > 6
