# SPDX-License-Identifier: Apache-2.0
"""What is answered to the calls of overlays, once it is known which claims may be acted on.

A controller grants or refuses a call by what it knows; what it granted is refused after all where
its claims were not granted, or are only proposed. Nothing is granted in silence: a call that nobody
answered is refused.
"""

from collections.abc import Iterable, Mapping

from nova_vp.core.pipeline.controllers import Claimed
from nova_vp.core.types.action import Action
from nova_vp.core.types.claim import Alternative
from nova_vp.core.types.overlay import CallAnswer, Nack
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.reason import Rejection

_NACKS: Mapping[Rejection, Nack] = {
    Rejection.UNMANAGED: Nack.UNMANAGED,
    Rejection.REFUSES_HELP: Nack.UNMANAGED,
    Rejection.NEVER_CAPPED: Nack.UNMANAGED,
    Rejection.HOST_REFUSED: Nack.HOST_REFUSED,
    Rejection.HOLD: Nack.TOO_SOON,
    Rejection.REVOKED: Nack.TOO_SOON,
    Rejection.REJECTED: Nack.TOO_SOON,
}
"""Of those that arbitration and rate limits have; the others are `OUTRANKED`."""


def answers_of(
    claimed: Claimed,
    refused: Iterable[Alternative],
    proposals: Iterable[Action],
    picture: Picture,
) -> tuple[CallAnswer, ...]:
    """One to each call of the picture, in their order."""
    if not picture.calls:
        return ()
    found = {answer.call_id: answer for answer in claimed.answers}
    for action in proposals:
        for call_id in action.call_ids:
            found[call_id] = _nack(call_id, Nack.MODE, "it is proposed, and not done")
    for one in refused:
        for call_id in one.call_ids:
            nack = _NACKS.get(one.rejection, Nack.OUTRANKED)
            found[call_id] = _nack(call_id, nack, one.rejection.value)
    return tuple(found.get(call.id) or _unanswered(call.id) for call in picture.calls)


def _unanswered(call_id: str) -> CallAnswer:
    return _nack(call_id, Nack.DISABLED, "no controller of this host answers calls")


def _nack(call_id: str, nack: Nack, detail: str) -> CallAnswer:
    return CallAnswer(call_id, nack, detail)
