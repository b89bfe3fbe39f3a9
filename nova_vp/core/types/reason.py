# SPDX-License-Identifier: Apache-2.0
"""Why an action was chosen, why an alternative was not, and the ways to help."""

import enum


class Reason(enum.Enum):
    """Why an action was chosen; the numbers travel beside it."""

    HOME = "home-on-arrival"
    MOVE_AGGRESSOR = "move-aggressor"
    MOVE_VICTIM = "move-victim"
    SEPARATE = "separate-on-hot-node"
    """State-8 VPs of a hot node, one node each (thesis 2.1.3)."""
    REARRANGE = "rearrange-predicted-hurt"
    SWAP = "swap-places"
    BRING_HOME = "bring-memory-and-cpus-together"
    PARTITION = "partition-cache-or-bandwidth"
    CAP = "cap-aggressor"
    RENEW_CAP = "renew-cap"
    LIFT_CAP = "lift-cap"
    MORE_CPU = "more-cpu"
    """Merlin: a VP uses nearly all the CPU that it was allotted."""
    LESS_CPU = "cpu-given-back"
    INEFFECTIVE = "undo-ineffective"
    REVOKED = "undo-ordered"
    """Somebody ordered that an action be undone."""
    REAPPLY = "reapply-lost-placement"


TRIED = frozenset(
    {
        Reason.MOVE_AGGRESSOR,
        Reason.MOVE_VICTIM,
        Reason.SEPARATE,
        Reason.REARRANGE,
        Reason.SWAP,
        Reason.BRING_HOME,
        Reason.PARTITION,
        Reason.CAP,
    }
)


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
    NEVER_CAPPED = "flavor-allows-no-cap"
    AT_FLOOR = "cap-at-its-floor"
    REVERSE_MOVE = "reverse-move-within-hold"
    HOLD = "moved-recently"
    BUDGET = "move-budget-spent"
    FAILED_BEFORE = "ineffective-before"
    OUTRANKED = "another-controller-owns-the-knob"
    NOT_BEST = "another-domain-hurts-less"
    REVOKED = "undone-by-order"


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
