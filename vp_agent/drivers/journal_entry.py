# SPDX-License-Identifier: Apache-2.0
"""One journal entry as an XML element in a guest's libvirt metadata: to text, and carefully back.

Anybody who may talk to libvirt can have written it, and a migration brings entries of other hosts:
what cannot be understood becomes an entry of epoch 0 that asks for what Nova gave.
"""

import math
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from typing import NamedTuple, cast
from xml.sax.saxutils import quoteattr

from nova_vp.core.types.knob import (
    NO_CPU_WEIGHT,
    NO_EMULATOR_WEIGHT,
    NO_MEMORY_SIZE,
    UNLIMITED_US,
    WEIGHT_RANGES,
    Applied,
    Cpus,
    CpuWeight,
    EmulatorWeight,
    Held,
    Knob,
    LlcShare,
    MembwShare,
    MemorySize,
    Quota,
    Shares,
    Value,
    WeightUnit,
)
from nova_vp.cpuset import format_cpus, parse_cpus

NAMESPACE = "urn:nova-vp:1"
"""The migrate hook (`vp_agent/hooks`) knows it too."""
PREFIX = "vp"
TAG = f"{{{NAMESPACE}}}applied"
UNREADABLE = "unreadable-journal"
RESERVED = "reserved"
"""In place of the controller: it may be changed from this original, see `reserving_journal`."""
NEVER = 0
"""No run of an agent has this epoch, so its entry is undone on sight: knob by knob, and what is
left meanwhile is written like any other."""
Attributes = Mapping[str, str]
_HELD = f"{{{NAMESPACE}}}held"
_CACHE_AND_BANDWIDTH = "partition"
_MAX_TEXT = 255
_MAX_VALUE = 4096
_MAX_KIB = 2**53
_MAX_US = 2**63 - 1
"""The kernel's own type."""


def format_entry(applied: Applied) -> str:
    """The elements without their namespace: libvirt adds that itself, to all of them."""
    held = "".join(_format_held(one) for one in applied.held)
    return f"<applied epoch={quoteattr(str(applied.epoch))}>{held}</applied>"


def _format_held(held: Held) -> str:
    until = "" if held.until_s is None else f" until={quoteattr(repr(held.until_s))}"
    return (
        f"<held knob={quoteattr(held.knob.value)} value={quoteattr(_format(held.value))}"
        f" original={quoteattr(_format(held.original))} controller={quoteattr(held.controller)}"
        f" action={quoteattr(held.action_id)}{until}/>"
    )


def _format(value: Value) -> str:
    """CPU sets, one per vCPU if they differ, are parted by `;`, numbers by spaces."""
    if isinstance(value, CpuWeight | EmulatorWeight):
        return f"{value.number} {value.unit.value}"
    if isinstance(value, Quota | LlcShare | MembwShare | MemorySize):
        return " ".join(map(repr, value))
    if value and isinstance(value[0], frozenset):
        return ";".join(format_cpus(cpus) for cpus in value)
    return " ".join(f"{node}:{share!r}" for node, share in cast(Shares, value))


def _parse(knob: Knob, text: str) -> Value:
    """Raises ValueError."""
    _check(len(text) <= _MAX_VALUE)
    if knob is Knob.PLACEMENT:
        cpus = tuple(parse_cpus(part) for part in text.split(";"))
        _check(all(cpus))
        return cpus
    if knob is Knob.CPU_CAP:
        quota_us, period_us = map(int, text.split())
        _check(quota_us == UNLIMITED_US or 0 < quota_us <= _MAX_US)
        _check(0 < period_us <= _MAX_US)
        return Quota(quota_us, period_us)
    if knob is Knob.CPU_WEIGHT:
        return _parse_weight(text)
    if knob is Knob.EMULATOR_WEIGHT:
        return EmulatorWeight(*_parse_weight(text))
    if knob is Knob.LLC:
        return LlcShare(_parse_share(text))
    if knob is Knob.MEMBW:
        return MembwShare(_parse_share(text))
    if knob is Knob.MEMORY_SIZE:
        kib = int(text)
        _check(0 <= kib <= _MAX_KIB)
        return MemorySize(kib)
    pairs = (part.split(":") for part in text.split())
    shares = tuple((int(node), float(share)) for node, share in pairs)
    _check(all(node >= 0 and 0 <= share <= 1 for node, share in shares))
    return shares


def _parse_weight(text: str) -> CpuWeight:
    """Raises ValueError."""
    number, unit = text.split()
    weight = CpuWeight(int(number), WeightUnit(unit))
    is_one = WEIGHT_RANGES[weight.unit].takes(weight.number)
    _check(is_one or weight == NO_CPU_WEIGHT)
    return weight


def _parse_share(text: str) -> float:
    """Raises ValueError."""
    ratio = float(text)
    _check(0 < ratio <= 1)
    return ratio


def _check(is_so: bool) -> None:
    """Raises ValueError, without a text: whatever it is, the whole entry is unreadable."""
    if not is_so:
        raise ValueError


class Given(NamedTuple):
    """What Nova gave a guest."""

    cpus: frozenset[int]
    quota: Quota


def parse_entry(element: ET.Element, guest_uuid: str, given: Given) -> Applied:
    """Original CPUs never reach beyond those given, whoever wrote them."""
    try:
        epoch = int(element.attrib["epoch"])
        found = (one for each in element.iterfind(_HELD) for one in _of_this_release(each.attrib))
        held = tuple(_parse_held(one, given.cpus) for one in found)
        _check(epoch >= NEVER and bool(held))
    except (KeyError, ValueError, TypeError):
        return unreadable(guest_uuid, given)
    return Applied(guest_uuid, epoch, held)


def _of_this_release(attributes: Attributes) -> tuple[Attributes, ...]:
    """Agents of the release before this one had one knob for cache and bandwidth. Two take its
    place, so that what it held is given back like all else. Raises KeyError, ValueError."""
    if attributes["knob"] != _CACHE_AND_BANDWIDTH:
        return (attributes,)
    values = zip(attributes["value"].split(), attributes["original"].split(), strict=True)
    return tuple(
        {**attributes, "knob": knob.value, "value": value, "original": original}
        for knob, (value, original) in zip((Knob.LLC, Knob.MEMBW), values, strict=True)
    )


def _parse_held(attributes: Attributes, bound: frozenset[int]) -> Held:
    """Raises KeyError, ValueError, TypeError."""
    knob = Knob(attributes["knob"])
    value = _parse(knob, attributes["value"])
    original = _parse(knob, attributes["original"])
    texts = attributes["controller"], attributes["action"]
    _check(max(map(len, texts)) <= _MAX_TEXT)
    if knob is Knob.PLACEMENT and not all(cpus <= bound for cpus in cast(Cpus, original)):
        original = (bound,)
    until_s = None if "until" not in attributes else float(attributes["until"])
    _check(until_s is None or math.isfinite(until_s))
    return Held(knob, value, original, texts[0], texts[1], until_s)


def unreadable(guest_uuid: str, given: Given) -> Applied:
    """Whatever of this it was: all that could have been carried here goes back."""
    cpus = (given.cpus,)
    values: dict[Knob, Value] = {
        Knob.PLACEMENT: cpus,
        Knob.CPU_CAP: given.quota,
        Knob.CPU_WEIGHT: NO_CPU_WEIGHT,
        Knob.MEMORY_SIZE: NO_MEMORY_SIZE,
        Knob.EMULATOR_WEIGHT: NO_EMULATOR_WEIGHT,
    }
    held = (Held(knob, value, value, UNREADABLE, "") for knob, value in values.items())
    return Applied(guest_uuid, NEVER, tuple(held))
