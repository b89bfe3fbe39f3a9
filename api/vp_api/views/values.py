# SPDX-License-Identifier: Apache-2.0
"""Single values in the form both views show them: times, states. Nothing here names a neighbour."""

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from nova_vp.core.types.sample import FactorClass, State
from nova_vp.timestamps import write

FACTOR_WORDS = {
    FactorClass.LOW: "mf<0.25",
    FactorClass.MID: "mf 0.25-0.6",
    FactorClass.HIGH: "mf>0.6",
}

MINUTE_S = 60
REMEMBERED = 4096
"""Moments, of which lists repeat most."""


@lru_cache(maxsize=REMEMBERED)
def iso(seconds: float | None) -> str | None:
    """A time a host reported; one that no calendar knows is no time."""
    if seconds is None:
        return None
    try:
        return iso_datetime(datetime.fromtimestamp(seconds, UTC))
    except (OverflowError, ValueError, OSError):
        return None


def to_minute(seconds: float | None) -> str | None:
    """The same for tenants: the full minute. To the second it would tell which of a neighbour's
    moments, a start or a peak that the tenant saw elsewhere, it goes with."""
    return None if seconds is None else iso(seconds // MINUTE_S * MINUTE_S)


def datetime_to_minute(moment: datetime) -> str:
    return iso_datetime(moment.replace(second=0, microsecond=0))


@lru_cache(maxsize=REMEMBERED)
def iso_datetime(moment: datetime) -> str:
    return write(moment)


@lru_cache
def state(number: int | None) -> dict[str, Any] | None:
    """`{"number": 8, "name": "bulldog, mf>0.6"}`."""
    if number is None:
        return None
    known = State.from_number(number)
    name = f"{known.intensity.name.lower()}, {FACTOR_WORDS[known.factor]}"
    return {"number": number, "name": name}
