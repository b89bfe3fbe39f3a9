# SPDX-License-Identifier: Apache-2.0
"""How a call is granted or refused, whose server it is where several overlays have it, and when
its direction changed too often."""

from collections.abc import Mapping
from typing import NamedTuple

from nova_vp.core.controllers.overlays.declaration import Reweighed, Sized, Tuned
from nova_vp.core.controllers.overlays.desk import Desk
from nova_vp.core.controllers.overlays.standing import QUICK_S
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.overlay import Call, Nack, Overlay

LEAST_LEASE_S = 0.1
"""A grant takes calls and ticks to be undone: one that is shorter lasts longer than was paid."""
MOST_TURNS = 3
"""Quick ones in a row, after which nothing changes until it was quiet for so long."""


class Granted(NamedTuple):
    what: str
    """For people."""
    lease_s: float | None = None
    """None: nothing stands that could end."""
    prices_s: Mapping[str, float] = {}
    """Credit that was spent, by server."""


class Refused(Exception):
    """The message says, for people, why, or what to do next."""

    def __init__(self, nack: Nack, detail: str, lacking: Guest | None = None) -> None:
        """`lacking`: the server for which others on this host leave too little CPU, if that is
        why."""
        super().__init__(detail)
        self.nack = nack
        self.detail = detail
        self.lacking = lacking


def asked_lease_s(call: Call, most_s: float) -> float:
    """`most_s`: what the settings grant at most, and where the call asks for none."""
    return max(min(call.lease_s or most_s, most_s), LEAST_LEASE_S)


def check_owner(desk: Desk, owner_id: str, overlay: Overlay) -> None:
    """A server of two overlays is that of the one with the higher priority, and else of the one
    that came first. Raises Refused."""
    owner = desk.overlays[owner_id]
    if owner.id != overlay.id and overlay.priority <= owner.priority:
        raise Refused(Nack.OUTRANKED, "another overlay of this server came first")


def turns(before: Tuned | Sized | Reweighed, is_up: bool, now_s: float) -> int:
    """With this step. Raises Refused."""
    is_quick = now_s - before.changed_at_s < QUICK_S
    so_far = before.turns if is_quick else 0
    if is_up is before.is_up:
        return so_far
    if so_far >= MOST_TURNS:
        raise Refused(Nack.TOO_SOON, f"it went up and down too often: wait {QUICK_S:g} s")
    return so_far + 1 if is_quick else 0
