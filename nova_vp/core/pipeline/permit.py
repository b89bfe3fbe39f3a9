# SPDX-License-Identifier: Apache-2.0
"""Which planned actions the modes allow; the others are proposals."""

from collections.abc import Iterable, Mapping

from nova_vp.core.types.action import Action
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Mode, tightest
from nova_vp.core.types.reason import REAPPLY, RELEASED, REVOKED


def permit(
    actions: Iterable[Action], picture: Picture
) -> tuple[tuple[Action, ...], tuple[Action, ...]]:
    """Which of the planned actions the modes let us do; the others are proposals."""
    may: list[Action] = []
    proposals: list[Action] = []
    modes = {guest.uuid: guest.mode for guest in picture.guests if guest.mode}
    for action in actions:
        ordered = mode_of(action, Mode.ENFORCE, modes)
        (may if _is_permitted(action, ordered, picture) else proposals).append(action)
    return tuple(may), tuple(proposals)


def mode_of(action: Action, host: Mode, ordered: Mapping[str, Mode]) -> Mode:
    """The tightest of the host's and those ordered for the servers that it would touch."""
    return tightest(host, *(ordered.get(change.guest_uuid, host) for change in action.changes))


def _is_permitted(action: Action, ordered: Mode, picture: Picture) -> bool:
    mode = tightest(picture.mode, ordered)
    if mode is Mode.ENFORCE or action.reason is REVOKED:
        return True
    if action.ignores_mode and ordered is Mode.ENFORCE:
        return True
    if mode is Mode.OBSERVE:
        return False
    settles = action.is_undo or action.reason in (REAPPLY, RELEASED)
    return settles or action.id in picture.approved
