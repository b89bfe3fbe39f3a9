# SPDX-License-Identifier: Apache-2.0
"""Which planned actions the modes allow; the others are proposals."""

from collections.abc import Mapping

from nova_vp.core.types.action import Action
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Mode, tightest
from nova_vp.core.types.reason import REAPPLY, RELEASED, REVOKED


def mode_of(action: Action, host: Mode, of_servers: Mapping[str, Mode]) -> Mode:
    """The tightest of those that hold for the servers that it would touch."""
    touched = {change.guest_uuid for change in action.changes}
    touched |= {claim.guest_uuid for claim in action.claims}
    modes = [of_servers.get(uuid, host) for uuid in touched]
    return tightest(*modes) if modes else host


def modes_of(picture: Picture) -> Mapping[str, Mode]:
    """Of servers for which another mode holds than for their host, by UUID."""
    return {guest.uuid: guest.mode for guest in picture.guests if guest.mode}


def is_permitted(action: Action, picture: Picture, modes: Mapping[str, Mode]) -> bool:
    """Whether the modes let us do it now. `modes`: as `modes_of` has them."""
    mode = mode_of(action, picture.mode, modes)
    if mode is Mode.ENFORCE or action.reason is REVOKED:
        return True
    if mode is Mode.OBSERVE:
        return False
    if action.ignores_mode and mode_of(action, Mode.ENFORCE, modes) is Mode.ENFORCE:
        return True
    settles = action.is_undo or action.reason in (REAPPLY, RELEASED)
    return settles or action.id in picture.approved
