# SPDX-License-Identifier: Apache-2.0
"""What controllers declare: flavor keys of both forms, and reasons as logs show them."""

import pytest

from nova_vp.core.types.declaration import FlavorKey
from tests.unit.core.build import COMPUTE, Host
from tests.unit.core.wishful import NOBODY, a_reason

WAYS = FlavorKey("vp:way", "which way", "up or down", str.upper, "NONE", allowed=("up", "down"))
PARTS = FlavorKey("vp:parts", "how many", "a digit", int, 1, pattern="[0-9]")


@pytest.mark.parametrize(
    ("key", "text", "has"),
    [(WAYS, "up", True), (WAYS, "left", False), (PARTS, "7", True), (PARTS, "77", False)],
)
def test_a_value_has_the_form_of_its_key(key, text, has):
    assert key.has_form(text) is has


def test_a_guest_has_what_its_flavor_says_or_the_default():
    host = Host(policy=NOBODY)
    host.add("vm", COMPUTE, controller_keys=(("vp:way", "down"),))
    assert WAYS.of(host.guest("vm")) == "DOWN"
    assert PARTS.of(host.guest("vm")) == 1


def test_a_reason_is_shown_by_its_code():
    assert repr(a_reason("some-reason", 500)) == "<Reason some-reason>"
