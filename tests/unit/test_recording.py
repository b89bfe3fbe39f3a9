# SPDX-License-Identifier: Apache-2.0
"""Core values survive being written down exactly, and recordings being cut off or damaged."""

import contextlib
import json
import typing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import CpuWeight, Knob, LlcShare, MembwShare, Quota, Value, WeightUnit
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Mode, Policy
from nova_vp.core.types.sample import Reading
from nova_vp.core.types.state import CoreState
from nova_vp.core.types.topology import LlcDomain, Topology
from nova_vp.recording.codec import Malformed, codec_of, record_of
from nova_vp.recording.file_format import (
    VERSION,
    VERSION_KEY,
    Header,
    LineWriter,
    NotARecording,
    Section,
    Tick,
    Told,
    read,
)
from tests.core_values import values_of
from tests.policies import a_policy

SLOW_TO_DRAW = settings(suppress_health_check=list(HealthCheck), max_examples=25, derandomize=True)
KINDS = [Picture, CoreState, Policy, Told, Guest]


def through_text(data):
    return json.loads(json.dumps(data))


@pytest.mark.parametrize("kind", KINDS)
@SLOW_TO_DRAW
@given(data=st.data())
def test_values_come_back_as_they_were(kind, data):
    value = data.draw(values_of(kind))
    codec = codec_of(kind)
    assert codec.decode(through_text(codec.encode(value))) == value


@pytest.mark.parametrize("kind", [Picture, Guest, Reading])
@SLOW_TO_DRAW
@given(data=st.data())
def test_over_an_earlier_value_what_changed_is_enough(kind, data):
    before, after = data.draw(values_of(kind)), data.draw(values_of(kind))
    record = record_of(kind)
    changes = record.encode(after, before)
    assert record.decode(through_text(changes), before) == after
    names = typing.get_type_hints(kind)
    same = {name for name in names if getattr(before, name) == getattr(after, name)}
    assert not same & changes.keys()


@pytest.mark.parametrize(
    "value",
    [(), (frozenset(),), (frozenset({3}), frozenset({1, 2})), ((0, 0.5), (1, 0.5)), Quota(5),
     CpuWeight(5), CpuWeight(2048, WeightUnit.SHARES), LlcShare(0.5), MembwShare(0.5)],
)  # fmt: skip
def test_values_of_knobs_keep_their_kind(value):
    codec = codec_of(Value)
    back = codec.decode(through_text(codec.encode(value)))
    assert back == value
    assert type(back) is type(value)


def test_every_type_that_a_recording_needs_can_be_written():
    for kind in (Header, Tick):
        for hint in typing.get_type_hints(kind).values():
            codec_of(hint)
    with pytest.raises(TypeError):
        codec_of(int | str)
    with pytest.raises(TypeError):
        codec_of(object)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (Guest, []),
        (Guest, {}),
        (Guest, {"shoe_size": 9}),
        (int, "1"),
        (int, True),
        (int, 1.5),
        (float, "1"),
        (str, None),
        (Knob, "soup"),
        (Quota, {"quota_us": "x"}),
        (tuple[int, str], [1]),
        (tuple[int, ...], {}),
        (frozenset[int], 7),
        (typing.Mapping[str, int], []),
        (typing.Mapping[int, int], [[1]]),
        (Value, {}),
        (Value, {"soup": 1}),
        (Value, {"memory": [], "placement": []}),
    ],
)
def test_what_is_no_such_value_is_refused(kind, data):
    with pytest.raises(Malformed):
        codec_of(kind).decode(data)


def lines_of(header, ticks):
    writer = LineWriter()
    return [writer.header(header), *map(writer.tick, ticks)]


HEADERS = st.builds(Header, st.text(), st.floats(0, 1e10), values_of(Policy), st.just(CoreState()))


@SLOW_TO_DRAW
@given(data=st.data())
def test_a_recording_is_read_as_it_was_written(data):
    sections = data.draw(
        st.lists(
            st.tuples(HEADERS, st.lists(values_of(Tick), max_size=4).map(tuple)),
            min_size=1,
            max_size=2,
        )
    )
    writer = LineWriter()
    lines = []
    for header, ticks in sections:
        lines += [writer.header(header), *map(writer.tick, ticks)]
    back = list(read(lines))
    assert back == [Section(header, ticks) for header, ticks in sections]
    for section, (_, ticks) in zip(back, sections, strict=True):
        for was, now in zip(ticks, section.ticks, strict=True):
            assert list(was.picture.readings) == list(now.picture.readings)


HEADER = Header("here", 1.0, a_policy(), CoreState())


def a_picture(at_s: float, *names: str) -> Picture:
    cpus = frozenset({0, 1})
    guests = tuple(
        Guest(name, f"instance-{name}", name, "p", "f", 1, 1, cpus, cpus, int(at_s), "1")
        for name in names
    )
    topology = Topology((LlcDomain(0, 0, cpus),))
    return Picture(at_s, Mode.ENFORCE, topology, guests, {}, {})


def a_recording(*pictures: Picture) -> list[str]:
    return lines_of(HEADER, [Tick(picture, (), Told()) for picture in pictures])


def test_a_tick_costs_what_changed():
    lines = a_recording(a_picture(1.0, "a", "b"), a_picture(2.0, "a", "b"), a_picture(3.0, "b"))
    assert "instance-a" in lines[1]
    assert lines[2] == (
        '{"tick":{"picture":{"at_s":2.0,"guests":{"a":{"cpu_time_ns":2},"b":{"cpu_time_ns":2}},'
        '"readings":{}}}}\n'
    )
    assert '"guests_are":["b"]' in lines[3]


def test_half_a_line_at_the_end_is_left_out():
    lines = a_recording(a_picture(1.0, "a"), a_picture(2.0, "a"))
    for length in range(len(lines[-1])):
        [section] = read([*lines[:-1], lines[-1][:length]])
        assert len(section.ticks) == 1


def a_recording_of_one() -> list[str]:
    return a_recording(a_picture(1.0, "a"))


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["\n"],
        ["soup\n"],
        ["[]\n"],
        ["7\n"],
        ['{"tick": {}}\n'],
        [json.dumps({VERSION_KEY: VERSION}) + "\n"],
        ["[" * 100_000 + "\n"],
        [*a_recording_of_one(), '{"tick": 7}\n'],
        [*a_recording_of_one(), '{"tick": {"picture": {"guests": [], "readings": {}}}}\n'],
    ],
)
def test_what_is_no_recording_is_told(lines):
    with pytest.raises(NotARecording):
        list(read(lines))


def test_a_recording_of_another_version_is_told_to_be_one():
    header, *ticks = a_recording_of_one()
    other = json.dumps({**json.loads(header), VERSION_KEY: VERSION + 1}) + "\n"
    with pytest.raises(NotARecording, match=f"version {VERSION + 1}; this release reads {VERSION}"):
        list(read([other, *ticks]))


@SLOW_TO_DRAW
@given(data=st.data())
def test_damage_is_told_and_nothing_else_is_raised(data):
    lines = a_recording(a_picture(1.0, "a", "b"), a_picture(2.0, "a", "b"))
    number = data.draw(st.integers(0, len(lines) - 1))
    line = lines[number]
    at = data.draw(st.integers(0, len(line) - 2))
    lines[number] = line[:at] + data.draw(st.text(max_size=3)) + line[at + 1 :]
    with contextlib.suppress(NotARecording):
        list(read(lines))
