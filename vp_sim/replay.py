# SPDX-License-Identifier: Apache-2.0
"""`vp-sim replay FILE`: recorded samples of a real host through `step` again, and through other
policies; what they decide beside what was decided then.

With the recorded policy the decisions are the same, or the core has changed since: that is what
replay is for, besides *what if*. It is an open loop: the samples stay those of the host as it was.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from random import Random

from nova_vp.conf.policy import with_option
from nova_vp.core.overlay_step import answer_calls
from nova_vp.core.step import step
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.policy import Policy
from nova_vp.recording.file_format import (
    NotARecording,
    Section,
    Tick,
    Told,
    confirmed,
    read,
    told,
)
from vp_sim.policies import Create, UnknownPolicy, find
from vp_sim.recorded import RecordedHost, Wish, recorded_drivers_of
from vp_sim.replay_log import Replayed, as_json, events_of, names_of, render, wished

RECORDED = "recorded"
AGAIN = "again"
SEED = "replay"
LAST_S = 2.0**37
"""Of what is taken for a time; calendars end later."""
LONGEST_LINE = 1 << 26
"""A tick of the fullest host takes less by far; a file without line ends is none."""


class CannotReplay(Exception):
    """The message says why, and what would do."""


def replay(section: Section, policy: Policy | None = None) -> Iterator[tuple[Tick, Decision]]:
    """The core's decisions on the recorded pictures. Its actions are answered as they were then;
    those that nobody tried are left open."""
    state, policy = section.header.state, policy or section.header.policy
    for tick in section.ticks:
        decide = answer_calls if tick.is_between else step
        state, decision = decide(state, tick.picture, policy)
        state = confirmed(state, decision, tick.answers, policy)
        yield tick, decision


def replay_all(
    sections: Sequence[Section], changes: Mapping[str, str], policies: Mapping[str, Create]
) -> Replayed:
    """Raises CannotReplay."""
    began_s = sections[0].ticks[0].picture.at_s
    again: list[tuple[float, Told]] = []
    then: list[tuple[float, Told]] = []
    for section in sections:
        for tick, decision in replay(section, changed(section.header.policy, changes)):
            at_s = tick.picture.at_s - began_s
            then.append((at_s, tick.told))
            again.append((at_s, told(decision)))
    names = names_of(sections)
    events = {RECORDED: events_of(then, names), AGAIN: events_of(again, names)}
    for name, create in policies.items():
        events[name] = tuple(wished(wish, began_s, names) for wish in _wishes(sections, create))
    return Replayed(
        host=sections[0].header.host,
        at=sections[0].header.at,
        ticks=sum(not tick.is_between for section in sections for tick in section.ticks),
        span_s=then[-1][0],
        differing=tuple(
            t for (t, was), (_, is_now) in zip(then, again, strict=True) if was != is_now
        ),
        changes=changes,
        events=events,
    )


def changed(policy: Policy, changes: Mapping[str, str]) -> Policy:
    """With other numbers, as an operator writes them. Raises CannotReplay."""
    try:
        for name, text in changes.items():
            policy = with_option(policy, name, text)
    except ValueError as exc:
        raise CannotReplay(str(exc)) from exc
    return policy


def _wishes(sections: Sequence[Section], create: Create) -> list[Wish]:
    """What another policy would turn; one that is random draws the same in every replay."""
    wishes = []
    for section in sections:
        host = RecordedHost(section.ticks[0].picture)
        policy = create(recorded_drivers_of(host), Random(SEED))  # type: ignore[arg-type]
        for tick in section.ticks:
            if tick.is_between:
                continue
            host.picture = tick.picture
            policy.tick(tick.picture.at_s)
        wishes += host.wishes
    return wishes


def load(path: str) -> list[Section]:
    """Raises CannotReplay."""
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            lines = iter(lambda: file.readline(LONGEST_LINE), "")
            sections = [section for section in read(lines) if section.ticks]
    except OSError as exc:
        raise CannotReplay(f"{path}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise CannotReplay(f"{path}: not a recording: the file is not text") from exc
    except NotARecording as exc:
        raise CannotReplay(f"{path}: not a recording that this release can read: {exc}") from exc
    if not sections:
        raise CannotReplay(f"{path}: the recording has no ticks")
    if not all(map(_is_in_time, sections)):
        raise CannotReplay(f"{path}: the recording is damaged: its times do not increase")
    return sections


def _is_in_time(section: Section) -> bool:
    times_s = [0.0, *(tick.picture.at_s for tick in section.ticks), LAST_S]
    return 0 <= section.header.at <= LAST_S and all(a < b for a, b in pairwise(times_s))


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="Recording of `vp-agent record on`")
    parser.add_argument(
        "--policies",
        default="",
        help="Other policies to show, separated by commas (for example llc)",
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="OPTION=VALUE",
        help="Override an option of [policy]; can be repeated",
    )
    parser.add_argument("--json", action="store_true", help="Print JSON instead of a table")


def run(args: argparse.Namespace) -> int:
    try:
        changes = dict(_pair(text) for text in args.set)
        policies = find(tuple(filter(None, args.policies.split(","))))
        replayed = replay_all(load(args.file), changes, policies)
    except (CannotReplay, UnknownPolicy) as exc:
        print(f"vp-sim: {exc}", file=sys.stderr)
        return 1
    print(json.dumps(as_json(replayed)) if args.json else render(replayed))
    return 0


def _pair(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise CannotReplay(f"--set {text}: give OPTION=VALUE")
    return name, value
