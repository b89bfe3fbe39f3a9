# SPDX-License-Identifier: Apache-2.0
"""Numbers from files that an agent wrote once: what no measurement can be raises ValueError."""

import math
from typing import Any

from nova_vp import wire


def finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is no measurement")
    return number


def measured(value: Any) -> float:
    number = finite(value)
    if not 0 <= number <= wire.MOST_NUMBER:
        raise ValueError(f"{number} is no measurement")
    return number


def positive(value: Any) -> float:
    number = finite(value)
    if number <= 0:
        raise ValueError(f"{number} is no limit")
    return number
