# SPDX-License-Identifier: Apache-2.0
"""One owner per knob: of several wants for one knob of a guest, the strongest controller wins.

Undoing what did not help, or what somebody wants undone, outranks mitigation, that outranks a
demand for more CPU, that rebalancing, that initial placement; what a reboot lost is put back
where nobody wants anything else. A want is granted whole or not at all.
Of two caps for one guest the tighter one wins, whoever wants it; of two alike the one that caps
others as well.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import cast

from nova_vp.core.types.knob import Knob, Quota
from nova_vp.core.types.reason import Reason, Rejection
from nova_vp.core.types.want import Alternative, Want

_RANK = {
    Reason.REVOKED: 0,
    Reason.INEFFECTIVE: 1,
    Reason.MOVE_AGGRESSOR: 2,
    Reason.BRING_HOME: 2,
    Reason.MOVE_VICTIM: 3,
    Reason.SWAP: 4,
    Reason.PARTITION: 5,
    Reason.CAP: 6,
    Reason.LIFT_CAP: 7,
    Reason.RENEW_CAP: 8,
    Reason.MORE_CPU: 9,
    Reason.LESS_CPU: 10,
    Reason.SEPARATE: 11,
    Reason.REARRANGE: 11,
    Reason.HOME: 12,
    Reason.REAPPLY: 13,
}


def arbitrate(wants: Iterable[Want]) -> tuple[tuple[Want, ...], tuple[Alternative, ...]]:
    """The wants that stand, and those that another one outranked."""
    granted: list[Want] = []
    owned: set[tuple[str, Knob]] = set()
    refused: list[Alternative] = []
    for want in sorted(wants, key=_precedence):
        keys = {(setting.guest_uuid, _thing(setting.knob)) for setting in want.settings}
        if not keys:
            victim = want.detection.victim_uuid if want.detection else None
            refused.extend(replace(one, victim_uuid=victim) for one in want.rejected)
        elif keys & owned:
            refused.append(refusal(want, Rejection.OUTRANKED))
        else:
            owned |= keys
            granted.append(want)
    return tuple(granted), tuple(refused)


def _thing(knob: Knob) -> Knob:
    """vCPUs and memory belong together: who moves the one decides on the other."""
    return Knob.PLACEMENT if knob is Knob.MEMORY else knob


def _precedence(want: Want) -> tuple[int, float, int, str]:
    """The more urgent reason first, then the tighter cap, then the wider one."""
    caps = [cast(Quota, s.value).cores for s in want.settings if s.knob is Knob.CPU_CAP]
    return _RANK[want.reason], min(caps, default=0.0), -len(caps), want.guest_uuid


def refusal(want: Want, why: Rejection) -> Alternative:
    """A whole want that may not be acted on now."""
    victim = want.detection.victim_uuid if want.detection else None
    domain_id = want.domain_ids[0] if want.domain_ids else 0
    return Alternative(want.guest_uuid, domain_id, why, want.predicted_loss, victim)
