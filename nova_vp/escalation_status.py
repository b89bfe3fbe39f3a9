# SPDX-License-Identifier: Apache-2.0
"""The states of an escalation and of each attempt to migrate, and which may follow which.

One table for both: an attempt passes through the middle ones. Whoever writes a state asks `follows`
first, so that no crash, race or late answer can make a finished escalation begin again.
"""

import enum
from collections.abc import Mapping


class Status(enum.Enum):
    RECEIVED = "received"
    """In the ledger; whom to move is not settled, since Nova could not be asked where the servers
    are, or the budget does not allow it yet."""
    OBSERVED = "observed"
    """Mode observe: what would have been done is recorded."""
    PROPOSED = "proposed"
    """Mode advise: waits for an operator."""
    REFUSED = "refused"
    """Nobody is worth moving, or nobody may be; Nova does not say that the victim is there; or no
    operator has accepted the proposal in time."""
    PREPARING = "preparing"
    """The agent is asked to take our settings off the guest."""
    REQUESTING = "requesting"
    """Nova is about to be asked, or was: only Nova knows."""
    MIGRATING = "migrating"
    """Nova has said yes."""
    COMPLETED = "completed"
    FAILED = "failed"
    ABORTED = "aborted"
    """By somebody else."""
    TIMED_OUT = "timed-out"
    """Aborted by us, since it took too long for its memory."""
    WITHDRAWN = "withdrawn"
    """There is nothing to mend any more: the victim is well, or a server is gone or elsewhere."""


NEXT: Mapping[Status, frozenset[Status]] = {
    Status.RECEIVED: frozenset(
        {Status.OBSERVED, Status.PROPOSED, Status.REFUSED, Status.PREPARING, Status.FAILED}
    ),
    Status.PROPOSED: frozenset({Status.RECEIVED, Status.REFUSED}),
    # Back to received: this one cannot move, so another candidate is looked for.
    Status.PREPARING: frozenset(
        {Status.REQUESTING, Status.RECEIVED, Status.FAILED, Status.WITHDRAWN}
    ),
    # Back to preparing: Nova has not heard of it, so it is asked again.
    Status.REQUESTING: frozenset(
        {
            Status.MIGRATING,
            Status.PREPARING,
            Status.RECEIVED,
            Status.FAILED,
            Status.WITHDRAWN,
        }
    ),
    Status.MIGRATING: frozenset(
        {
            Status.PREPARING,
            Status.RECEIVED,
            Status.COMPLETED,
            Status.FAILED,
            Status.ABORTED,
            Status.TIMED_OUT,
            Status.WITHDRAWN,
        }
    ),
}

FINAL = frozenset(Status) - NEXT.keys()
RUNNING = frozenset({Status.PREPARING, Status.REQUESTING, Status.MIGRATING})
"""What counts against the budgets of migrations at the same time."""


def follows(before: Status, after: Status) -> bool:
    return before is after or after in NEXT.get(before, frozenset())
