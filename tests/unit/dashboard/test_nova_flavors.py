# SPDX-License-Identifier: Apache-2.0
"""Extra specs of a flavor, by whichever library the release of Horizon asks Nova."""

from types import SimpleNamespace

import pytest

from vp_dashboard.nova_flavors import extra_specs

SPECS = {"vp:isolation": "strict"}


@pytest.mark.parametrize("attribute", ["extra_specs", "extras"], ids=["openstacksdk", "novaclient"])
def test_extra_specs_are_read_as_either_library_has_them(attribute):
    assert extra_specs(SimpleNamespace(id="1", **{attribute: SPECS})) == SPECS
