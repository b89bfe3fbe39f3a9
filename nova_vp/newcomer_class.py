# SPDX-License-Identifier: Apache-2.0
"""Which newcomer class is the usual one: schedulers place by it, and vp-api shows it."""

from collections.abc import Mapping


def most_common(counts: Mapping[int, int]) -> int:
    """Of classes that are met equally often, the one that demands most."""
    return max(counts, key=lambda number: (counts[number], number))
