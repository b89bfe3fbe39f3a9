# SPDX-License-Identifier: Apache-2.0
"""`vp:memory_split`: what its values are, for the agent, the filter and Nova's API alike."""

import pytest

from nova_vp.core.controllers.initial_placement.declaration import MEMORY_SPLIT
from nova_vp.flavor_specs import InvalidFlavorSpec, fault, parse
from tests.unit.core.build import COMPUTE, Host


@pytest.mark.parametrize(
    ("text", "shares"),
    [("60,40", (0.6, 0.4)), ("30,10,10,10,10,10,10,10", (0.3, *[0.1] * 7))],
)
def test_percentages_become_shares(text, shares):
    spec = parse({MEMORY_SPLIT.key: text})
    assert spec.controller_keys == ((MEMORY_SPLIT.key, text),)
    host = Host()
    host.add("vm", COMPUTE, controller_keys=spec.controller_keys)
    host.add("plain", COMPUTE)
    assert MEMORY_SPLIT.of(host.guest("vm")) == shares
    assert MEMORY_SPLIT.of(host.guest("plain")) == ()


@pytest.mark.parametrize(
    "text",
    ["100", "60,41", "60,39", "60, 40", "60,40,", "100,0", "60;40", "60.5,39.5", "20" + ",10" * 8],
)
def test_other_values_are_refused_with_what_is_allowed(text):
    told = fault(MEMORY_SPLIT.key, text)
    assert told is not None
    assert f"vp:memory_split={text!r}" in told
    assert "2 to 8 percentages that add up to 100" in told
    with pytest.raises(InvalidFlavorSpec, match="2 to 8 percentages"):
        parse({MEMORY_SPLIT.key: text})
