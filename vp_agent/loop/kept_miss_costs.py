# SPDX-License-Identifier: Apache-2.0
"""What misses cost each server, as a text that outlives one run of the agent; pure.

What was learned long ago counts less: the server may do other work since.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from nova_vp import wire
from nova_vp.core.model.miss_cost import KEPT, faded
from nova_vp.core.types.sample import MissCost
from vp_agent.checked_numbers import finite, measured

HALVED_AFTER_S = 86400.0
FORGOTTEN_AFTER_S = 7 * 86400.0
MOST_WEIGHT = 1 / (1 - KEPT)
"""Which the weight of samples comes close to, however many there are."""
MOST_RATIO = 1e6
"""Of misses per 1000 instructions, and of cycles per instruction."""


def as_text(costs: Mapping[str, MissCost], at_s: float) -> str:
    """`at_s`, as `now_s` below: seconds since 1970."""
    return json.dumps({"at": at_s, "servers": {uuid: [*cost] for uuid, cost in costs.items()}})


def from_text(text: str, now_s: float) -> dict[str, MissCost]:
    """Raises what decoding raises where it is not what `as_text` wrote."""
    told = json.loads(text)
    age_s = max(now_s - measured(told["at"]), 0.0)
    if len(told["servers"]) > wire.MAX_SERVERS:
        raise ValueError(f"{len(told['servers'])} servers are not those of one host")
    costs = {uuid: _cost(row) for uuid, row in told["servers"].items()}
    if age_s > FORGOTTEN_AFTER_S:
        return {}
    share = 0.5 ** (age_s / HALVED_AFTER_S)
    return {uuid: faded(cost, share) for uuid, cost in costs.items()}


def _cost(row: Any) -> MissCost:
    weight, l2_mpki, mpki, cpi, mpki_squares, products, cpi_squares = row
    cost = MissCost(
        weight=_up_to(MOST_WEIGHT, weight),
        l2_mpki=_up_to(MOST_RATIO, l2_mpki),
        mpki=_up_to(MOST_RATIO, mpki),
        cpi=_up_to(MOST_RATIO, cpi),
        mpki_squares=measured(mpki_squares),
        products=finite(products),
        cpi_squares=measured(cpi_squares),
    )
    # No two series vary more together than each does.
    if abs(cost.products) > 1.001 * math.sqrt(cost.mpki_squares) * math.sqrt(cost.cpi_squares):
        raise ValueError(f"{cost.products} is more than these samples can vary")
    return cost


def _up_to(most: float, value: Any) -> float:
    number = measured(value)
    if number > most:
        raise ValueError(f"{number} is more than {most}")
    return number
