# SPDX-License-Identifier: Apache-2.0
"""The flavor key: its values, and the floor that comes with it."""

import pytest

from nova_vp import flavor_specs
from nova_vp.core.controllers.permits.declaration import LLC_PERMIT


@pytest.mark.parametrize(("value", "permit"), [("1", 1), ("250000", 250_000), ("auto", None)])
def test_a_permit_is_a_number_or_left_to_the_operator(value, permit):
    assert flavor_specs.fault(LLC_PERMIT.key, value) is None
    assert LLC_PERMIT.read(value) == permit


@pytest.mark.parametrize("value", ["0", "-1", "1.5", "10000000", "", "Auto", "250k", "\u0661"])
def test_other_values_are_refused(value):
    assert "from 1 to 9999999, or auto" in flavor_specs.fault(LLC_PERMIT.key, value)


@pytest.mark.parametrize(
    ("extra_specs", "floor_ratio"),
    [
        ({"vp:llc_permit": "900"}, 0.01),
        ({"vp:llc_permit": "900", "vp:cpu_floor": "30"}, 0.3),
        ({"vp:llc_permit": "900", "vp:manage": "no"}, None),
        ({"vp:isolation": "soft"}, flavor_specs.DEFAULT_CAP_FLOOR_RATIO),
    ],
)
def test_its_floor_is_1_percent_unless_the_flavor_says_otherwise(extra_specs, floor_ratio):
    assert flavor_specs.parse(extra_specs).cap_floor_ratio == floor_ratio
