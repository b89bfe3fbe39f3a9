# SPDX-License-Identifier: Apache-2.0
"""One owner per knob: of several wants for one guest's placement, the strongest controller wins.

Undoing what did not help outranks mitigation, mitigation outranks homing.
"""

from collections.abc import Iterable
from dataclasses import replace

from nova_vp.core.model import Alternative, Reason, Rejection, Want

_RANK = {
    Reason.INEFFECTIVE: 0,
    Reason.MOVE_AGGRESSOR: 1,
    Reason.MOVE_VICTIM: 2,
    Reason.HOME: 3,
    Reason.REAPPLY: 4,
}


def arbitrate(wants: Iterable[Want]) -> tuple[tuple[Want, ...], tuple[Alternative, ...]]:
    """The wants that stand, and those that another one outranked."""
    owners: dict[str, Want] = {}
    refused: list[Alternative] = []
    for want in sorted(wants, key=lambda w: (_RANK[w.reason], w.guest_uuid)):
        if not want.cpus:
            victim = want.detection.victim_uuid if want.detection else None
            refused.extend(replace(one, victim_uuid=victim) for one in want.rejected)
        elif want.guest_uuid in owners:
            refused.append(refusal(want, Rejection.OUTRANKED))
        else:
            owners[want.guest_uuid] = want
    return tuple(owners.values()), tuple(refused)


def refusal(want: Want, why: Rejection) -> Alternative:
    """A whole want that may not be acted on now."""
    victim = want.detection.victim_uuid if want.detection else None
    return Alternative(want.guest_uuid, want.domain_ids[0], why, want.hurt, victim)
