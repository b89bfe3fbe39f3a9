# SPDX-License-Identifier: Apache-2.0
"""What was learned of each latency-critical server for the loop `cpi`: the option `cpi_models`."""

import math
import re
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class CpiModel(NamedTuple):
    """Of one server, from its learning phase; or what stands in for it."""

    threshold: float
    """Cycles per instruction above which it is disturbed."""
    most_cores: float
    """The most CPU that it uses."""


@lru_cache(maxsize=8)
def cpi_models_of(text: str) -> Mapping[str, CpiModel]:
    """By server: of `UUID=threshold/cores`, separated by commas. Raises ValueError, which says what
    is wrong."""
    parts = (part.strip() for part in text.split(","))
    return MappingProxyType(dict(map(_read, filter(None, parts))))


def _read(part: str) -> tuple[str, CpiModel]:
    uuid, _, numbers = part.partition("=")
    threshold, _, cores = numbers.partition("/")
    model = CpiModel(_number(threshold), _number(cores))
    if not _UUID.fullmatch(uuid) or not all(0.0 < one < math.inf for one in model):
        raise ValueError(
            f"{part!r} is not UUID=threshold/cores with two numbers above 0, as `vp-agent "
            "learn-cpi` prints it"
        )
    return uuid, model


def _number(text: str) -> float:
    """NaN where it is none."""
    try:
        return float(text)
    except ValueError:
        return math.nan
