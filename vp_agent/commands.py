# SPDX-License-Identifier: Apache-2.0
"""What an operator can tell a running agent, whichever way the order comes in (bus or socket)."""

from dataclasses import dataclass
from typing import Protocol

from nova_vp.core.types.overlay import Call, CallAnswer
from nova_vp.core.types.policy import Mode

MOST_WHY = 255
"""Letters of a reason that somebody gives."""


class UnknownAction(Exception):
    """No action of that id is known, or no proposal. The message lists those that stand."""


class NotInForce(Exception):
    """Nothing of that action stands now. The message says why, and lists those that do."""


class NotRejectable(Exception):
    """That proposal gives back what was changed before. The message says so."""


class CannotOverride(Exception):
    """There is no such override, or no such server here. The message says what there is."""


class NotAdvising(Exception):
    """Proposals can be accepted in mode `advise` only. The message says how to get there."""


class Commands(Protocol):
    """Thread-safe; takes effect with the next tick."""

    def set_mode(self, mode: Mode | None) -> None:
        """The host's own, remembered across restarts; None: it has none any more. Raises OSError
        where the state folder refuses."""

    def accept(self, action_id: str) -> None:
        """Raises UnknownAction or NotAdvising."""

    def reject(self, action_id: str, by: str, why: str) -> None:
        """`by`: who rejects the proposal; `why` may be empty. Raises UnknownAction or
        NotRejectable."""

    def undo(self, action_id: str) -> None:
        """Raises UnknownAction or NotInForce."""

    def take_overrides(self, text: object) -> int | None:
        """Of single servers: a `wire.OVERRIDES` message, remembered across restarts; None. One that
        is older than what was taken already changes nothing; the version that holds. Raises
        wire.BadMessage, and OSError where the state folder refuses."""

    def take_modes(self, text: object) -> None:
        """Of the cloud and of aggregates: a `wire.MODES` message, remembered across restarts. One
        that is older than what was taken already changes nothing. Raises wire.BadMessage, and
        OSError where the state folder refuses."""

    def take_latency(self, text: object) -> None:
        """What an application reports of its server: a `wire.LATENCY` message. What is late or of
        no server here is ignored. Raises wire.BadMessage."""


class OverlayCommands(Protocol):
    """What this host is told of applications, and asked by them. Thread-safe."""

    def take_overlays(self, text: object) -> int | None:
        """A `wire.OVERLAYS` message, remembered across restarts; as `Commands.take_overrides`."""

    def call_overlay(self, call: Call, project_id: str | None) -> CallAnswer:
        """Blocks until it is answered, for some seconds at most. `project_id`: of whoever calls;
        None: an operator does."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Whether a guest may be migrated now."""

    ready: bool
    why: str = ""
    """Not ready, since ..."""


class MigrationCommands(Protocol):
    """What the cluster asks of a guest that it migrates. Thread-safe; may be repeated."""

    def prepare(self, escalation_id: str, uuid: str, hold_s: float) -> Prepared:
        """Nothing of ours is on the guest, and it is left alone for that long. Blocks for some
        seconds at most."""

    def end(self, escalation_id: str, uuid: str, outcome: str, detail: str) -> None:
        """That is over."""
