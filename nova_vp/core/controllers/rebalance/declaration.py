# SPDX-License-Identifier: Apache-2.0
"""Reasons, settings and state of the controller `rebalance`."""

from dataclasses import dataclass

from nova_vp.core.types.declaration import option
from nova_vp.core.types.reason import Reason

NAME = "rebalance"
MOVED = "this server was moved within its host"

SEPARATE = Reason(
    code="separate-on-hot-node",
    rank=700,
    label="it loads a hot NUMA node; a move lowers the predicted degradation",
    own_label=MOVED,
    neighbour_label="a neighbour was moved away",
    is_verified=True,
    is_counted=True,
    takes_away=True,
    is_for_host=True,
)
REARRANGE = Reason(
    code="rearrange-predicted-hurt",
    rank=700,
    label="a move lowers the predicted total degradation",
    own_label=MOVED,
    is_verified=True,
    is_counted=True,
    takes_away=True,
    is_for_host=True,
)
REASONS = (SEPARATE, REARRANGE)


@dataclass(frozen=True, slots=True)
class RebalanceSettings:
    """The operator's numbers for `rebalance` alone."""

    rearrange_after_s: float = option(
        10.0,
        "Seconds without any change of placement before servers are rebalanced by prediction.",
        minimum=1.0,
        formerly="rearrange_after_s",
    )
    felt_loss_ratio: float = option(
        0.03,
        "Predicted loss of performance, as a share, from which a better place is sought for a "
        "server whose state never changed.",
        minimum=0.0,
        maximum=1.0,
        formerly="felt_loss_ratio",
    )


@dataclass(frozen=True, slots=True)
class Looks:
    """When the next look for a better arrangement is due."""

    next_s: float = 0.0
    """Each fruitless look doubles the wait for the next one."""
    fruitless: int = 0
