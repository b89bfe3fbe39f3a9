# SPDX-License-Identifier: Apache-2.0
"""Named points at which tests let a process die, as if its machine had lost power.

Nothing happens unless the environment names the point, and no option can: a service that is run
as usual never dies of this. A new name is added to POINTS first, so that a test cannot misspell it.
"""

import os
from typing import Final

VARIABLE: Final = "NOVA_VP_FAIL_AT"
EXIT_STATUS: Final = 86

POINTS: Final = frozenset(
    f"{when}-{what}"
    for when in ("before", "after")
    for what in (
        "escalation-sent",
        "ledger-commit",
        "acknowledgement",
        "prepared",
        "nova-call",
        "completion",
        "keys-registered",
        "usage-sent",
        "usage-commit",
    )
)


def reach(point: str) -> None:
    """Ends the process at once where the environment names `point`. Raises KeyError: no such."""
    if point not in POINTS:
        raise KeyError(point)
    if os.environ.get(VARIABLE) == point:
        os._exit(EXIT_STATUS)
