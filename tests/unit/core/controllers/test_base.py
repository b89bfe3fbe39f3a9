# SPDX-License-Identifier: Apache-2.0
"""What a controller answers that says nothing about it."""

import pytest

from nova_vp.core.controllers.base import Controller
from nova_vp.core.types.policy import Mode


class Silent(Controller):
    name = "silent"
    summary = "does nothing"


def test_what_a_controller_does_not_say_is_no():
    silent = Silent()
    with pytest.raises(NotImplementedError):
        silent.run(None, None, None)
    assert silent.note("state", None, None, None) == "state"
    assert not silent.grants(None, None, None, None)
    assert not any(silent.places_newcomers(mode, None) for mode in Mode)
    assert not silent.is_default
    assert silent.needs_counters
    assert not silent.serves_classes
    assert not silent.changes_often
