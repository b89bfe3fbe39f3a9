# SPDX-License-Identifier: Apache-2.0
"""How a call is granted or refused, and whose server it is where several overlays have it."""

from typing import NamedTuple

from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.types.overlay import Nack, Overlay


class Granted(NamedTuple):
    what: str
    """For people."""
    lease_s: float | None = None
    """None: nothing stands that could end."""


class Refused(Exception):
    """The message says, for people, why, or what to do next."""

    def __init__(self, nack: Nack, detail: str) -> None:
        super().__init__(detail)
        self.nack = nack
        self.detail = detail


def check_owner(desk: Desk, owner_id: str, overlay: Overlay) -> None:
    """A server of two overlays is that of the one with the higher priority, and else of the one
    that came first. Raises Refused."""
    owner = desk.overlays[owner_id]
    if owner.id != overlay.id and overlay.priority <= owner.priority:
        raise Refused(Nack.OUTRANKED, "another overlay of this server came first")
