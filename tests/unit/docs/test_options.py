# SPDX-License-Identifier: Apache-2.0
"""Options that the pages name exist: ours, the libraries', and Nova's in each of its releases."""

import re

import pytest

from tests.options import OURS, assignments, is_option
from tests.unit.docs.pages import blocks, inline

pytestmark = pytest.mark.nova


def settings() -> list[tuple[str, str, str]]:
    blocks_read = [assignments(block.splitlines(keepends=True)) for block in blocks("ini")]
    return [one for block in blocks_read for one in block if one[0] != "Service"]


def test_settings_of_our_groups_are_options_with_that_type() -> None:
    groups = {group for group, _ in OURS}
    mine = [setting for setting in settings() if setting[0] in groups]
    assert {group for group, _, _ in mine} >= {"agent", "bus", "vp_scheduler"}
    for group, name, value in mine:
        OURS[group, name].type(value)


def test_settings_of_others_are_options_too() -> None:
    unknown = {(group, name) for group, name, _ in settings() if not is_option(group, name)}
    assert not unknown


def test_options_named_in_the_text_exist() -> None:
    named = {found for code in inline() for found in re.findall(r"^\[(\w+)\] (\w+)", code)}
    assert len(named) > 40
    assert {option for option in named if not is_option(*option)} == set()
