# SPDX-License-Identifier: Apache-2.0
"""The course of a replay as events, who decided what and when, for people and for programs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any, NamedTuple

from nova_vp.core.types.knob import (
    CpuWeight,
    EmulatorWeight,
    LlcShare,
    MembwShare,
    MemorySize,
    Quota,
    Value,
)
from nova_vp.core.types.overlay import CallAnswer
from nova_vp.cpuset import format_cpus
from nova_vp.recording.file_format import Made, Section, Told
from vp_sim.recorded import Wish


class Event(NamedTuple):
    """Something that was not so in the tick before."""

    at_s: float
    """Since the recording's first tick."""
    text: str


@dataclass(frozen=True, slots=True)
class Replayed:
    """One recording, and what came of it."""

    host: str
    at: float
    ticks: int
    span_s: float
    differing: tuple[float, ...]
    """Seconds at which `step` decided otherwise than was recorded."""
    changes: Mapping[str, str]
    """Numbers of `[policy]` that `again` decided by instead of the recorded ones."""
    events: Mapping[str, tuple[Event, ...]]
    """By who decided: `recorded`, `again` for the core of this release, other policies."""


def names_of(sections: Sequence[Section]) -> dict[str, str]:
    return {g.uuid: g.name for s in sections for t in s.ticks for g in t.picture.guests}


def events_of(course: Sequence[tuple[float, Told]], names: Mapping[str, str]) -> tuple[Event, ...]:
    found = []
    for (_, before), (at_s, now) in pairwise([(0.0, Told()), *course]):
        found += [Event(at_s, text) for text in _new(before, now, names)]
    return tuple(found)


def _new(before: Told, now: Told, names: Mapping[str, str]) -> Iterator[str]:
    hurt, was_hurt = dict(now.detections), dict(before.detections)
    for uuid, kind in hurt.items():
        if was_hurt.get(uuid) is not kind:
            yield f"{_name(names, uuid)} is degraded: {kind.value}"
    for uuid in was_hurt.keys() - hurt.keys():
        yield f"{_name(names, uuid)} is no longer degraded"
    for made in now.actions:
        yield _action(made, names)
    proposed = {made.id for made in before.proposals}
    for made in now.proposals:
        if made.id not in proposed:
            yield f"proposed: {_action(made, names)}"
    for one in now.escalations:
        if one not in before.escalations:
            yield f"no action on this host helps {_name(names, one[1])}"
    yield from map(_answer, now.calls)


def _answer(answer: CallAnswer) -> str:
    what = f"is refused: {answer.nack.value}" if answer.nack else "is granted"
    return f"call {answer.call_id} {what}, {answer.detail}"


def _action(made: Made, names: Mapping[str, str]) -> str:
    turned = ", ".join(
        f"{_name(names, uuid)} {knob.value} {value_text(value)}"
        for uuid, knob, value in made.turned
    )
    return f"{made.reason}: {turned}"


def wished(wish: Wish, began_s: float, names: Mapping[str, str]) -> Event:
    text = f"{_name(names, wish.guest_uuid)} {wish.knob.value} {value_text(wish.to)}"
    return Event(wish.at_s - began_s, text)


def _name(names: Mapping[str, str], uuid: str) -> str:
    return names.get(uuid) or uuid


def value_text(value: Value) -> str:
    if isinstance(value, Quota):
        return f"{value.cores:.2f} cores per vCPU"
    if isinstance(value, CpuWeight | EmulatorWeight):
        return f"{value.number} {value.unit.value}"
    if isinstance(value, LlcShare):
        return f"{value.ratio:.0%} of the cache"
    if isinstance(value, MembwShare):
        return f"{value.ratio:.0%} of the bandwidth"
    if isinstance(value, MemorySize):
        return f"{value.kib / 1024:.0f} MiB"
    return ";".join(
        format_cpus(part) if isinstance(part, frozenset) else "{}:{:.0%}".format(*part)
        for part in value
    )


def render(replayed: Replayed) -> str:
    """The course as a table: who decided, when, what."""
    when = datetime.fromtimestamp(replayed.at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    lines = [f"{replayed.host}, {when}: {replayed.ticks} ticks in {replayed.span_s:.0f} s"]
    rows = [
        (event.at_s, who, event.text) for who, events in replayed.events.items() for event in events
    ]
    width = max(map(len, replayed.events))
    lines += [
        f"{at_s:9.1f} s  {who:{width}}  {text}" for at_s, who, text in sorted(rows, key=_when)
    ]
    changed = ", ".join(f"{name}={text}" for name, text in replayed.changes.items())
    by_whom = f"this release with {changed}" if changed else "this release"
    if replayed.differing:
        lines.append(
            f"{by_whom} decides differently in {len(replayed.differing)} ticks, first at "
            f"{replayed.differing[0]:.1f} s"
        )
    else:
        lines.append(f"{by_whom} makes the same decisions in every tick")
    return "\n".join(lines)


def _when(row: tuple[float, str, str]) -> float:
    return row[0]


def as_json(replayed: Replayed) -> dict[str, Any]:
    return {
        "host": replayed.host,
        "at": replayed.at,
        "ticks": replayed.ticks,
        "span_s": replayed.span_s,
        "differing_ticks": len(replayed.differing),
        "first_differing_s": replayed.differing[0] if replayed.differing else None,
        "policies": {
            who: [{"at_s": event.at_s, "what": event.text} for event in events]
            for who, events in replayed.events.items()
        },
    }
