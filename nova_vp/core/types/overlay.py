# SPDX-License-Identifier: Apache-2.0
"""Overlays, the calls that applications and monitors make of them, and what becomes of a call.

Source: thesis 2013, sections 4.3.2 and 4.3.3 (table 3). Nothing here decides.
"""

import enum
from typing import NamedTuple


class ArbitrationClass(enum.Enum):
    """How calls of overlays that want the same are put in order."""

    PRIORITY = "priority"
    """By falling priority."""
    ROUND_ROBIN = "round-robin"
    """In turn; after those of the other class."""


class Overlay(NamedTuple):
    """Servers of one project that make up one application, as far as they are on this host."""

    id: str
    name: str
    project_id: str
    members: frozenset[str] = frozenset()
    """UUIDs of servers."""
    priority: float = 1.0
    arbitration: ArbitrationClass = ArbitrationClass.PRIORITY
    target: float | None = None
    """What its monitors act on; None: it has none."""
    target_unit: str = ""


class Verb(enum.Enum):
    TUNE = "tune"
    """A little more or less of a resource for one server; the island decides how much."""
    TRIGGER = "trigger"
    """The servers go first at once, for a short time."""
    BORROW = "borrow"
    """Whole CPUs for the island of the overlay, from another island."""
    RELEASE = "release"
    """Everything that was granted goes back."""
    RENEW = "renew"
    """What was tuned or borrowed stands for another lease."""


class CallResource(enum.Enum):
    CPU = "cpu"
    MEMORY_SIZE = "memory-size"
    IO = "io"
    """CPU of the threads that serve its network and disks, beside its vCPUs."""


class Direction(enum.Enum):
    UP = "up"
    DOWN = "down"


class Call(NamedTuple):
    """One call, checked for form and for whose overlay it is."""

    id: str
    overlay_id: str
    verb: Verb
    resource: CallResource = CallResource.CPU
    direction: Direction = Direction.UP
    """Of TUNE."""
    guest_uuid: str = ""
    """Empty: all members on this host, not of TUNE and BORROW."""
    cpus: int = 0
    """Of BORROW."""
    island: str = ""
    """From which BORROW takes; empty: the overlay's own islands first, then the idlest."""
    lease_s: float | None = None
    """None: as long as the host's settings say."""


class Nack(enum.Enum):
    """Why a call is refused."""

    UNKNOWN_OVERLAY = "unknown-overlay"
    NOT_A_MEMBER = "not-a-member"
    UNKNOWN_ISLAND = "unknown-island"
    NO_ROOM = "no-room"
    NO_CREDIT = "no-credit"
    TOO_MANY_CALLS = "too-many-calls"
    NO_BALLOON = "no-balloon"
    UNMANAGED = "unmanaged"
    """Nova or an operator keeps the server to its place, or refuses help for it."""
    MODE = "mode"
    """The host or the server is not in mode enforce."""
    OUTRANKED = "outranked"
    """A controller of a higher rank limits it, or another overlay came first."""
    NOTHING_TO_RELEASE = "nothing-to-release"
    NOTHING_TO_RENEW = "nothing-to-renew"
    TOO_SOON = "too-soon"
    """It was changed, or undone, too recently."""
    HOST_REFUSED = "host-refused"
    """The host did not do it, now or a few seconds ago."""
    DISABLED = "disabled"
    """The host does not run the controller that answers calls."""
    UNREACHABLE = "unreachable"
    """Of a server on another host: that host, or what lies between, does not answer."""


class OverlayView(NamedTuple):
    """What one overlay holds after a tick or a call."""

    overlay_id: str
    borrowed_cpus: int
    boosted: tuple[str, ...]
    """Servers that run first now."""
    credit_ratio: float
    """How full its credit is."""
    granted: int
    """Calls since the agent started."""
    refused: int


class CallAnswer(NamedTuple):
    call_id: str
    nack: Nack | None
    """None: it is granted."""
    detail: str = ""
    """For people: what was done, or what to do next."""
    lease_s: float | None = None
    """For how long it stands; None: until it is released, or nothing stands."""
    held_off_s: float = 0.0
    """For so long every call of the overlay that gives nothing back is refused like this one."""


def held_off(call_id: str, held_off_s: float) -> CallAnswer:
    """To a call of an overlay that calls too often, for so long."""
    detail = f"call less often; try again in {held_off_s:.1f} s"
    return CallAnswer(call_id, Nack.TOO_MANY_CALLS, detail, held_off_s=held_off_s)
