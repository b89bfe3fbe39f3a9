# SPDX-License-Identifier: Apache-2.0
"""Undisturbed profiles of servers, as a text that outlives one run of the agent; pure."""

import json
from collections.abc import Mapping
from typing import Any

from nova_vp.core.types.sample import Profile, Sensitivity, State
from vp_agent.checked_numbers import finite, measured

MOST_RATIO = 1e6
_DIVISORS = frozenset({"cpi", "memory_ratio", "sibling_speed"})
"""Of a profile: what the core divides by."""


def as_text(profiles: Mapping[str, Profile]) -> str:
    return json.dumps({uuid: _row(profile) for uuid, profile in profiles.items()})


def from_text(text: str) -> dict[str, Profile]:
    """Raises what decoding raises where it is not what `as_text` wrote."""
    return {uuid: _profile(row) for uuid, row in json.loads(text).items()}


def _row(profile: Profile) -> dict[str, object]:
    return {
        **profile._asdict(),
        "state": profile.state.number,
        "sensitivity": profile.sensitivity._asdict(),
        # Most of the file; digits behind the point would triple it.
        "pressures": {uuid: round(per_s) for uuid, per_s in profile.pressures.items()},
    }


def _profile(row: Mapping[str, Any]) -> Profile:
    values = dict(row)
    return Profile(
        state=State.from_number(int(finite(values.pop("state")))),
        sensitivity=_sensitivity(values.pop("sensitivity")),
        pressures={uuid: measured(per_s) for uuid, per_s in values.pop("pressures").items()},
        samples=int(measured(values.pop("samples", 1))),
        **{name: _divisor(values.pop(name)) for name in _DIVISORS & values.keys()},
        **{name: measured(value) for name, value in values.items()},
    )


def _sensitivity(row: Mapping[str, Any]) -> Sensitivity:
    if not all(isinstance(value, bool) for value in row.values()):
        raise ValueError(f"{row} is no sensitivity")
    return Sensitivity(**row)


def _divisor(value: Any) -> float:
    number = measured(value)
    if not 1 / MOST_RATIO <= number <= MOST_RATIO:
        raise ValueError(f"{number} is no ratio")
    return number
