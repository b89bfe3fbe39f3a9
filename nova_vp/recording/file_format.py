# SPDX-License-Identifier: Apache-2.0
"""A recording: what one host's core saw and was answered, tick by tick, as JSON lines.

Agents write it, `vp-sim replay` reads it. A header holds what `step` started from, a line per tick
what changed in its picture since the line before; so does a line for each time that calls of
overlays were answered between two ticks. With that the core makes the same decisions again.
Lines are made and read here; files and threads are for others.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from nova_vp.core.pipeline.confirm import confirm
from nova_vp.core.types.action import Action, Outcome, Result
from nova_vp.core.types.decision import Decision, Escalation
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Knob, Value
from nova_vp.core.types.overlay import CallAnswer
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.sample import Reading
from nova_vp.core.types.state import CoreState
from nova_vp.recording.codec import Json, Malformed, record_of

VERSION = 3
VERSION_KEY = "nova-vp-recording"
_TICK_KEY = "tick"
_BETWEEN_KEY = "between"
_LONGEST_TOLD = 200
_PICTURE = record_of(Picture)
_BY_GUEST = {"guests": record_of(Guest), "readings": record_of(Reading)}
"""What changes in every tick, and mostly a little of it."""


class NotARecording(Exception):
    """The message says in which line and why."""


@dataclass(frozen=True, slots=True)
class Header:
    host: str
    at: float
    """Seconds since 1970."""
    policy: Policy
    state: CoreState
    """Before the first tick that follows."""


class Turned(NamedTuple):
    """One knob of one guest, as an action wanted it."""

    guest_uuid: str
    knob: Knob
    to: Value


class Made(NamedTuple):
    """An action as far as it is compared."""

    id: str
    controller: str
    reason: str
    """Its code."""
    guest_uuid: str
    victim_uuid: str | None
    turned: tuple[Turned, ...]


class Told(NamedTuple):
    """What a decision came to."""

    detections: tuple[tuple[str, Kind], ...] = ()
    """Victim, and where."""
    actions: tuple[Made, ...] = ()
    proposals: tuple[Made, ...] = ()
    escalations: tuple[tuple[str, str], ...] = ()
    """Id, and victim."""
    calls: tuple[CallAnswer, ...] = ()
    """As the core answered them."""


class Answer(NamedTuple):
    """What the host said to an action."""

    action_id: str
    result: Result
    at_s: float
    detail: str = ""


class Tick(NamedTuple):
    """Or what was answered between two ticks."""

    picture: Picture
    answers: tuple[Answer, ...]
    told: Told
    is_between: bool = False


@dataclass(frozen=True, slots=True)
class Section:
    """Ticks of one agent in a row."""

    header: Header
    ticks: tuple[Tick, ...]


def told(decision: Decision) -> Told:
    return Told(
        detections=tuple((d.victim_uuid, d.kind) for d in decision.detections),
        actions=tuple(map(_made, decision.actions)),
        proposals=tuple(map(_made, decision.proposals)),
        escalations=tuple(map(_escalated, decision.escalations)),
        calls=decision.answers,
    )


def _made(action: Action) -> Made:
    turned = tuple(Turned(c.guest_uuid, c.knob, c.to) for c in action.changes)
    return Made(
        action.id,
        action.controller,
        action.reason.code,
        action.guest_uuid,
        action.victim_uuid,
        turned,
    )


def _escalated(escalation: Escalation) -> tuple[str, str]:
    return escalation.id, escalation.victim_uuid


def answered(outcomes: Iterable[Outcome]) -> tuple[Answer, ...]:
    return tuple(Answer(o.action.id, o.result, o.at_s, o.detail) for o in outcomes)


def confirmed(
    state: CoreState, decision: Decision, answers: Iterable[Answer], policy: Policy
) -> CoreState:
    """Memory after what the host answered to those of the actions that it was asked for."""
    actions = {action.id: action for action in decision.actions}
    return confirm(
        state,
        [
            Outcome(actions[answer.action_id], answer.result, answer.at_s, answer.detail)
            for answer in answers
            if answer.action_id in actions
        ],
        policy,
    )


class LineWriter:
    """Values to lines, each with its newline. Not thread-safe."""

    def __init__(self) -> None:
        self._last: Picture | None = None
        self._told = Told()

    def header(self, header: Header) -> str:
        self._last, self._told = None, Told()
        return _line({VERSION_KEY: VERSION, **record_of(Header).encode(header)})

    def tick(self, tick: Tick) -> str:
        """After a header."""
        data: dict[str, Json] = {"picture": _picture_over(tick.picture, self._last)}
        if tick.answers:
            data["answers"] = [record_of(Answer).encode(answer) for answer in tick.answers]
        if changes := record_of(Told).encode(tick.told, self._told):
            data["told"] = changes
        self._last, self._told = tick.picture, tick.told
        return _line({_BETWEEN_KEY if tick.is_between else _TICK_KEY: data})


def _line(data: Json) -> str:
    return json.dumps(data, separators=(",", ":")) + "\n"


def _picture_over(now: Picture, last: Picture | None) -> Json:
    data = _PICTURE.encode(now, last, but=_BY_GUEST)
    for name, record in _BY_GUEST.items():
        was, values = _by_uuid(last, name) if last else {}, _by_uuid(now, name)
        if list(values) != list(was):
            data[f"{name}_are"] = list(values)
        data[name] = {
            uuid: changes
            for uuid, value in values.items()
            if value is not was.get(uuid)
            and ((changes := record.encode(value, was.get(uuid))) or uuid not in was)
        }
    return data


def _by_uuid(picture: Picture, name: str) -> Mapping[str, Any]:
    if name == "guests":
        return {guest.uuid: guest for guest in picture.guests}
    return picture.readings


def read(lines: Iterable[str]) -> Iterator[Section]:
    """Raises NotARecording. A last line that was not finished (a kill, a full disk) is left out."""
    header: Header | None = None
    ticks: list[Tick] = []
    for number, line in enumerate(lines, 1):
        if not line.endswith("\n"):
            break
        try:
            data = json.loads(line)
            if VERSION_KEY in data:
                if header is not None:
                    yield Section(header, tuple(ticks))
                header, ticks = _header(data), []
            elif header is None:
                raise Malformed("a recording begins with its header")
            else:
                ticks.append(_tick(data, ticks[-1] if ticks else None))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as exc:
            raise NotARecording(f"line {number}: {str(exc)[:_LONGEST_TOLD]}") from exc
    if header is None:
        raise NotARecording("there is no recording in it")
    yield Section(header, tuple(ticks))


def _header(data: Json) -> Header:
    fields = dict(data)
    version = fields.pop(VERSION_KEY)
    if version != VERSION:
        raise Malformed(f"a recording of version {version}; this release reads {VERSION}")
    header: Header = record_of(Header).decode(fields)
    return header


def _tick(data: Json, last: Tick | None) -> Tick:
    is_between = _BETWEEN_KEY in data
    fields = data[_BETWEEN_KEY if is_between else _TICK_KEY]
    answers = tuple(record_of(Answer).decode(part) for part in fields.get("answers", ()))
    was = last.told if last else Told()
    return Tick(
        _picture_from(fields["picture"], last.picture if last else None),
        answers,
        record_of(Told).decode(fields.get("told", {}), was),
        is_between,
    )


def _picture_from(data: Json, last: Picture | None) -> Picture:
    fields = dict(data)
    values: dict[str, dict[str, Any]] = {}
    for name, record in _BY_GUEST.items():
        was = _by_uuid(last, name) if last else {}
        changes = fields.pop(name)
        values[name] = {
            uuid: record.decode(changes.get(uuid, {}), was.get(uuid))
            for uuid in fields.pop(f"{name}_are", was)
        }
    given = {"guests": tuple(values["guests"].values()), "readings": values["readings"]}
    picture: Picture = _PICTURE.decode(fields, last, given)
    return picture
