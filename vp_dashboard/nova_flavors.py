# SPDX-License-Identifier: Apache-2.0
"""Flavors as Horizon lists them: since release 27 by openstacksdk, before it by novaclient."""

from collections.abc import Mapping
from typing import Any


def extra_specs(flavor: Any) -> Mapping[str, str]:
    specs: Mapping[str, str] = (
        flavor.extra_specs if hasattr(flavor, "extra_specs") else flavor.extras
    )
    return specs
