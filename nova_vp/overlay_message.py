# SPDX-License-Identifier: Apache-2.0
"""Overlays of a host, calls of them and answers: their form in messages and files. Pure.

What a reader gets is bounded and well formed; whether a call may be made is for the receiver.
"""

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from nova_vp import wire
from nova_vp.core.types.overlay import (
    ArbitrationClass,
    Call,
    CallAnswer,
    CallResource,
    Direction,
    Nack,
    Overlay,
    Verb,
)
from nova_vp.printable import printable

LATE_S = 10.0
"""A call that was sent longer ago is not carried out: nobody waits for its answer any more."""


class CallMessage(NamedTuple):
    call: Call
    project_id: str
    """Whose overlay it is, by the database."""
    sent_at_ms: int

    def age_s(self, now_ms: int) -> float:
        """Clocks that differ make nothing younger than new."""
        return max(0, now_ms - self.sent_at_ms) / 1000


def overlays_text(version: int, overlays: Iterable[Overlay]) -> str:
    """A `wire.OVERLAYS` message, or a file of the like. Raises wire.BadMessage if it is too
    large."""
    told = _as_message(overlays)
    return wire.encode(wire.OVERLAYS, {"v": wire.VERSION, "version": version, "overlays": told})


def read_overlays(text: object) -> tuple[int, tuple[Overlay, ...]]:
    """Its version and all overlays with servers on the host. Raises wire.BadMessage."""
    message = wire.decode(wire.OVERLAYS, text)
    overlays = tuple(_overlay(one) for one in message["overlays"])
    seen: set[str] = set()
    for one in overlays:
        if one.id in seen or not seen.isdisjoint(one.members):
            raise wire.BadMessage(f"{wire.OVERLAYS}: {one.id} or a server of it comes twice")
        seen |= {one.id, *one.members}
    return int(message["version"]), overlays


def checksum(overlays: Iterable[Overlay]) -> str:
    """By which a host says what it was told; the same in whichever order they come."""
    told = wire.compact(_as_message(overlays))
    return hashlib.sha256(told.encode("ascii")).hexdigest()[:32]


def call_text(message: CallMessage) -> str:
    """A `wire.OVERLAY_CALL` message. Raises wire.BadMessage for a number that JSON does not
    have."""
    call = message.call
    told = {
        "v": wire.VERSION,
        "id": call.id,
        "overlay_id": call.overlay_id,
        "project_id": message.project_id,
        "verb": call.verb.value,
        "resource": call.resource.value,
        "direction": call.direction.value,
        "server": call.guest_uuid or None,
        "cpus": call.cpus,
        "island": call.island,
        "lease_s": call.lease_s,
        "sent_at_ms": message.sent_at_ms,
    }
    return wire.encode(wire.OVERLAY_CALL, told)


def read_call(text: object) -> CallMessage:
    """Raises wire.BadMessage, also for what no call can mean."""
    told = wire.decode(wire.OVERLAY_CALL, text)
    call = Call(
        id=told["id"],
        overlay_id=told["overlay_id"].lower(),
        verb=Verb(told["verb"]),
        resource=CallResource(told["resource"]),
        direction=Direction(told["direction"]),
        guest_uuid=(told["server"] or "").lower(),
        cpus=int(told["cpus"]),
        island=told["island"],
        lease_s=told["lease_s"],
    )
    if fault := fault_of(call):
        raise wire.BadMessage(f"{wire.OVERLAY_CALL}: {fault}")
    return CallMessage(call, told["project_id"], int(told["sent_at_ms"]))


def fault_of(call: Call) -> str | None:
    """What no call can mean, in words that say what to give; None: it is well formed."""
    needs_server = call.verb in (Verb.TUNE, Verb.BORROW)
    is_borrow = call.verb is Verb.BORROW
    if needs_server and not call.guest_uuid:
        return f"{call.verb.value}: name one server (server_id)"
    if is_borrow and call.cpus < 1:
        return "borrow: give cpus, 1 or more"
    if not is_borrow and (call.cpus or call.island):
        return f"{call.verb.value}: cpus and island are of borrow alone"
    if call.verb is not Verb.TUNE and call.resource is not CallResource.CPU:
        return f"{call.verb.value}: its resource is cpu"
    if call.verb is not Verb.TUNE and call.direction is not Direction.UP:
        return f"{call.verb.value}: a direction is of tune alone"
    if call.verb is Verb.RELEASE and call.lease_s is not None:
        return "release: it has no lease"
    return None


def answer_text(answer: CallAnswer) -> str:
    """A `wire.OVERLAY_ANSWER` message. Raises wire.BadMessage if it is too large."""
    told = {
        "v": wire.VERSION,
        "call_id": answer.call_id,
        "nack": answer.nack.value if answer.nack else None,
        "detail": answer.detail,
        "lease_s": answer.lease_s,
    }
    return wire.encode(wire.OVERLAY_ANSWER, told)


def read_answer(text: object) -> CallAnswer:
    """Raises wire.BadMessage."""
    told = wire.decode(wire.OVERLAY_ANSWER, text)
    nack = Nack(told["nack"]) if told["nack"] else None
    return CallAnswer(told["call_id"], nack, printable(told["detail"]), told["lease_s"])


def _as_message(overlays: Iterable[Overlay]) -> list[dict[str, Any]]:
    """In one order, so that equal overlays have equal texts."""
    return [
        {
            "id": one.id,
            "name": printable(one.name),
            "project_id": one.project_id,
            "members": sorted(one.members),
            "priority": float(one.priority),
            "arbitration": one.arbitration.value,
            "target": None if one.target is None else float(one.target),
            "target_unit": printable(one.target_unit),
        }
        for one in sorted(overlays, key=lambda overlay: overlay.id)
    ]


def _overlay(told: dict[str, Any]) -> Overlay:
    """Of a valid one, in which a whole number may be written as 3.0 and the reverse."""
    if not told["name"].isprintable() or not told["target_unit"].isprintable():
        raise wire.BadMessage(f"{wire.OVERLAYS}: a name or unit of {told['id']} is not printable")
    return Overlay(
        id=told["id"].lower(),
        name=told["name"],
        project_id=told["project_id"],
        members=frozenset(uuid.lower() for uuid in told["members"]),
        priority=float(told["priority"]),
        arbitration=ArbitrationClass(told["arbitration"]),
        target=None if told["target"] is None else float(told["target"]),
        target_unit=told["target_unit"],
    )
