# SPDX-License-Identifier: Apache-2.0
"""Why an action was chosen, why an alternative was not, and the ways to help.

A reason is one row, declared by the controller that acts for it; everything that depends on a
reason reads its row. The reasons here are those of the pipeline itself.
"""

import enum
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Reason:
    """One reason for an action. Each exists once: it is compared by identity."""

    code: str
    """What programs read: lower case and hyphens, the same in every release."""
    rank: int
    """Of two claims to the same knob the one with the lower rank is granted. The controllers of
    this project have: operator 0, revert 100, latency 200, permits 300, vp 400, overlays 500,
    merlin 600, rebalance 700, initial_placement 800."""
    label: str
    """For operators: why, as a clause about the server that is changed."""
    own_label: str
    """For the tenant whose server is changed; names no neighbour."""
    neighbour_label: str = "an action was applied for this server"
    """For the tenant for whose server another one is changed."""
    is_verified: bool = False
    """It must prove itself by what is measured afterwards, or it is reverted."""
    is_counted: bool = False
    """It counts against the budgets of actions, and waits for them."""
    is_revert: bool = False
    """It takes an earlier action back: no hold or budget keeps it waiting."""
    gives_back: bool = False
    """It keeps or gives back, so that it may concern what a person had reverted."""
    takes_away: bool = False
    """A server or memory that it moves is not moved back to where it was within the hold."""
    is_for_host: bool = False
    """It is for the sake of all servers of the host. Any other one that neither reverts nor gives
    back is for the sake of one server: its claims' victim, or who asked, or who is changed."""
    is_for_moved: bool = False
    """Without a degradation that was detected, it is verified by those that it changes alone."""
    is_rule: bool = False
    """A rule of the source asks for it, whatever it brings: what it copied goes back only if it is
    measured to have done harm, since that costs as much again."""
    limits_critical: bool = False
    """It may limit a latency-critical server, whose target it holds against. No other one may."""
    is_at_once: bool = False
    """A move for it neither waits for the hold after an earlier move, nor begins one: it may leave
    the server's island, and its controller has a hold of its own."""
    is_stepwise: bool = False
    """One of several steps: it is verified by whether its victim gains, not by its recovery."""

    def __repr__(self) -> str:
        return f"<Reason {self.code}>"


REVOKED = Reason(
    code="undo-ordered",
    rank=0,
    label="an operator reverted an earlier action",
    own_label="an earlier action on this server was reverted by request",
    neighbour_label="an earlier action on a neighbour was reverted",
    is_revert=True,
)
INEFFECTIVE = Reason(
    code="undo-ineffective",
    rank=100,
    label="an earlier action had no effect, so it is reverted",
    own_label="an earlier action on this server was reverted",
    neighbour_label="an earlier action on a neighbour was reverted",
    is_revert=True,
)
RELEASED = Reason(
    code="release-limit",
    rank=900,
    label="no controller needs the limit any longer, so it is raised or removed",
    own_label="a limit on this server was raised or removed",
    neighbour_label="a limit on a neighbour was raised or removed",
    gives_back=True,
)
REAPPLY = Reason(
    code="reapply-lost-placement",
    rank=910,
    label="a setting was lost, for example in a reboot, and is applied again",
    own_label="an earlier action on this server was applied again",
    neighbour_label="an earlier action on a neighbour was applied again",
    gives_back=True,
)
PIPELINE_REASONS = (REVOKED, INEFFECTIVE, RELEASED, REAPPLY)


class Rejection(enum.Enum):
    """Why an alternative was not chosen."""

    NO_FREE_CPU = "no-free-cpu"
    MORE_CROWDED = "more-crowded"
    SHARED_EVERYWHERE = "shares-every-domain-with-the-victim"
    HURTS_MORE = "predicted-hurt-not-lower"
    HURTS_OTHERS = "would-hurt-others-too-much"
    GAINS_TOO_LITTLE = "predicted-gain-too-small"
    UNFAIR = "would-favour-one-over-another"
    UNMANAGED = "guest-unmanaged"
    REFUSES_HELP = "server-refuses-help"
    """It is for the sake of a server that was opted out."""
    INVALID = "value-out-of-bounds"
    """No value that the server can have, one knob twice, or a raise of what is no limit."""
    NO_SUCH_KNOB = "host-has-no-such-knob"
    NEVER_CAPPED = "flavor-allows-no-cap"
    LATENCY_CRITICAL = "server-is-latency-critical"
    """Only reasons that say so limit such a server."""
    AT_FLOOR = "cap-at-its-floor"
    REVERSE_MOVE = "reverse-move-within-hold"
    HOLD = "moved-recently"
    HOST_REFUSED = "host-refused-recently"
    """It was applied, the host did not do it, and would not do it a second later."""
    BUDGET = "move-budget-spent"
    VICTIM_BUDGET = "victim-budget-spent"
    PROJECT_BUDGET = "project-budget-spent"
    NO_GAIN = "victim-gained-nothing"
    """What was done to others for this victim did not help it, several times in a row."""
    FAILED_BEFORE = "ineffective-before"
    OUTRANKED = "another-controller-owns-the-knob"
    NOT_BEST = "another-domain-hurts-less"
    REVOKED = "undone-by-order"
    REJECTED = "rejected-by-an-operator"
    NOT_RELAXED = "limit-still-needed"
    """The controller whose limit it is refused to relax it."""


class Rung(enum.Enum):
    """The ways to help, as the thesis orders them: 2.1.3 for mitigation, 3.1 for demands."""

    RAISE_CAP = "raise-cap"
    LOCAL_CPU = "local-cpu"
    REMOTE_CPU = "remote-cpu"
    MOVE = "move-vcpus"
    SWAP = "swap"
    MOVE_WITH_MEMORY = "move-vcpus-and-memory"
    MOVE_MEMORY = "move-memory"
    PARTITION = "partition"
    CAP = "cap"
