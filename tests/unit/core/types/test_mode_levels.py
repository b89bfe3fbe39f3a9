# SPDX-License-Identifier: Apache-2.0
"""Which mode holds, of those that are set on several levels."""

import itertools

import pytest

from nova_vp.core.types.mode_levels import UNSET, ModeLevel, SetMode, effective
from nova_vp.core.types.policy import Mode

SET = [level for level in ModeLevel if level is not ModeLevel.DEFAULT]
CHOICES = (None, *Mode)


def test_where_none_is_set_observe_holds():
    assert effective(()) == UNSET == SetMode(Mode.OBSERVE, ModeLevel.DEFAULT)


@pytest.mark.parametrize("modes", [*itertools.product(CHOICES, repeat=len(SET))])
def test_the_tightest_of_those_that_are_set_holds(modes):
    levels = [SetMode(mode, level) for mode, level in zip(modes, SET, strict=True) if mode]
    found = effective(levels)
    named = [mode.value for mode in modes if mode]
    expected = next((word for word in ("observe", "advise", "enforce") if word in named), "observe")
    assert found.mode.value == expected
    if levels:
        assert found == next(one for one in levels if one.mode.value == expected), "the broadest"
