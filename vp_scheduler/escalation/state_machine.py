# SPDX-License-Identifier: Apache-2.0
"""What a worker does with an escalation that it has claimed, state by state, until it must wait.

Which step a state takes, and nothing of what the steps do: they stand in `choosing`, `requesting`,
`following` and `telling`, and share a `desk`.
"""

from nova_vp.db.records import Escalation
from nova_vp.escalation_status import Status
from vp_scheduler.escalation.choosing import Choosing
from vp_scheduler.escalation.context import Backends, StepContext
from vp_scheduler.escalation.monitor import Following
from vp_scheduler.escalation.notify import Telling
from vp_scheduler.escalation.request import Requesting
from vp_scheduler.escalation.settings import Settings

MOST_STEPS = 30
"""At one go: a world that changes back and forth must not keep a thread for itself."""


class StateMachine:
    def __init__(self, means: Backends, settings: Settings) -> None:
        self._context = StepContext(means, settings)
        requesting = Requesting(self._context)
        self._finish = Telling(self._context).finish
        self._table = {
            Status.RECEIVED: Choosing(self._context).choose,
            Status.PREPARING: requesting.prepare,
            Status.REQUESTING: requesting.find_request,
            Status.MIGRATING: Following(self._context, requesting.ask_again).follow,
        }

    def apply_config(self, settings: Settings) -> None:
        """From the next step on. From any thread."""
        self._context.settings = settings

    def run(self, escalation: Escalation) -> None:
        """Until nothing can be done now; then the claim is given back.

        Raises LostClaim, and oslo.db's exceptions.
        """
        for _ in range(MOST_STEPS):
            escalation = self._table.get(escalation.status, self._finish)(escalation)
            if escalation.owner is None:
                return
        self._context.wait(escalation, self._context.settings.poll_s)
