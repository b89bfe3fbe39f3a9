# SPDX-License-Identifier: Apache-2.0
"""Which planned actions the modes allow; the others are proposals."""

from collections.abc import Mapping

from nova_vp.core.types.action import Action
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Mode, tightest
from nova_vp.core.types.reason import REAPPLY, RELEASED, REVOKED


def mode_of(action: Action, host: Mode, ordered: Mapping[str, Mode]) -> Mode:
    """The tightest of the host's and those ordered for the servers that it would touch."""
    touched = {change.guest_uuid for change in action.changes}
    touched |= {claim.guest_uuid for claim in action.claims}
    return tightest(host, *(ordered.get(uuid, host) for uuid in touched))


def modes_of(picture: Picture) -> Mapping[str, Mode]:
    """Those ordered for single servers, by UUID."""
    return {guest.uuid: guest.mode for guest in picture.guests if guest.mode}


def is_permitted(action: Action, picture: Picture, ordered_modes: Mapping[str, Mode]) -> bool:
    """Whether the modes let us do it now."""
    ordered = mode_of(action, Mode.ENFORCE, ordered_modes)
    mode = tightest(picture.mode, ordered)
    if mode is Mode.ENFORCE or action.reason is REVOKED:
        return True
    if action.ignores_mode and ordered is Mode.ENFORCE:
        return True
    if mode is Mode.OBSERVE:
        return False
    settles = action.is_undo or action.reason in (REAPPLY, RELEASED)
    return settles or action.id in picture.approved
