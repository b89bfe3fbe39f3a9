# SPDX-License-Identifier: Apache-2.0
"""What a host's resctrl can divide, and its `schemata` lines: text to values and back; pure.

The kernel speaks in bit masks of cache ways and in percents of bandwidth, the core in shares.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from nova_vp.core.types.knob import NO_LLC_LIMIT, NO_MEMBW_LIMIT, Knob, LlcShare, MembwShare

Share = LlcShare | MembwShare
Read = Callable[[str], str]
"""A file below resctrl's root by its relative path; raises FileNotFoundError."""

_L3 = ("L3",)
_L3_CDP = ("L3CODE", "L3DATA")
_BANDWIDTH = "MB"
_MAX_WAYS = 64
_FULL_PERCENT = 100
_FLOAT_SLACK = 1e-9
"""So that 0.3 of 10 ways is 3."""


class Unusable(Exception):
    """resctrl is there, but not in a shape that we can use. The message says what is odd."""


@dataclass(frozen=True, slots=True)
class Cache:
    """The last-level cache as the kernel lets us divide it."""

    resources: tuple[str, ...]
    """With code and data prioritisation (CDP) the kernel has two masks; we keep them equal."""
    domain_ids: tuple[int, ...]
    ways: int
    min_ways: int
    shareable_mask: int
    """Ways that devices fill too (DDIO)."""


@dataclass(frozen=True, slots=True)
class Bandwidth:
    domain_ids: tuple[int, ...]
    step_percent: int
    min_percent: int


@dataclass(frozen=True, slots=True)
class Features:
    cache: Cache | None
    bandwidth: Bandwidth | None
    groups: int
    """That can exist at a time, the root's included."""
    lacking: Mapping[Knob, str]
    """Why the one or the other is missing, for people."""

    @property
    def knobs(self) -> frozenset[Knob]:
        return frozenset({Knob.LLC, Knob.MEMBW} - self.lacking.keys())


def parse_features(read: Read) -> Features:
    """Raises Unusable."""
    try:
        root = parse_schemata(read("schemata"))
        cache, no_cache, cache_groups = _cache(read, root)
        bandwidth, no_bandwidth, bandwidth_groups = _bandwidth(read, root)
    except (ValueError, OSError) as exc:
        raise Unusable(f"resctrl does not read as it should: {exc}") from exc
    why_not = {Knob.LLC: no_cache, Knob.MEMBW: no_bandwidth}
    lacking = {knob: why for knob, why in why_not.items() if why}
    if cache is None and bandwidth is None:
        raise Unusable("; ".join(lacking.values()))
    return Features(cache, bandwidth, min(cache_groups, bandwidth_groups), lacking)


_NO_BOUND = 1 << 16


def _cache(read: Read, root: "Schemata") -> tuple[Cache | None, str, int]:
    resources = _L3_CDP if _L3_CDP[0] in root else _L3
    if not all(resource in root for resource in resources):
        return None, "this CPU cannot partition its L3 cache (no info/L3)", _NO_BOUND
    info = f"info/{resources[0]}"
    mask = _number(read, f"{info}/cbm_mask", 16)
    ways = mask.bit_count()
    if not 0 < ways <= _MAX_WAYS or mask != _low(ways):
        raise ValueError(f"{info}/cbm_mask is {mask:x}, not ways from bit 0 on")
    cache = Cache(
        resources=resources,
        domain_ids=tuple(root[resources[0]]),
        ways=ways,
        # AMD allows an empty mask; a guest without any way would run from memory alone.
        min_ways=max(1, _number(read, f"{info}/min_cbm_bits")),
        shareable_mask=_number(read, f"{info}/shareable_bits", 16),
    )
    return cache, "", _number(read, f"{info}/num_closids")


def _bandwidth(read: Read, root: "Schemata") -> tuple[Bandwidth | None, str, int]:
    if _BANDWIDTH not in root:
        return None, "this CPU cannot limit memory bandwidth (no info/MB)", _NO_BOUND
    step = _number(read, "info/MB/bandwidth_gran")
    least = _number(read, "info/MB/min_bandwidth")
    values = [int(value) for value in root[_BANDWIDTH].values()]
    if least < 1 or step < 1 or any(value > _FULL_PERCENT for value in values):
        # AMD counts in steps of 1/8 GB/s, and so does everybody under mba_MBps in MB/s.
        why = "memory bandwidth is limited in absolute figures here, not in shares: not used"
        return None, why, _NO_BOUND
    bandwidth = Bandwidth(tuple(root[_BANDWIDTH]), step, least)
    return bandwidth, "", _number(read, "info/MB/num_closids")


def _number(read: Read, path: str, base: int = 10) -> int:
    """Raises OSError, ValueError."""
    text = read(path)
    try:
        return int(text, base)
    except ValueError as exc:
        raise ValueError(f"{path} is {text!r}, no number") from exc


Schemata = dict[str, dict[int, str]]
"""By resource and domain id."""


def parse_schemata(text: str) -> Schemata:
    """Raises ValueError."""
    found: Schemata = {}
    for line in text.splitlines():
        resource, _, values = line.strip().partition(":")
        pairs = (pair.split("=") for pair in values.split(";"))
        try:
            found[resource] = {int(domain): value.strip() for domain, value in pairs}
        except ValueError as exc:
            raise ValueError(f"schemata line {line!r}") from exc
    return found


def format_schemata(shares: Iterable[Share], features: Features) -> str:
    """What is not among `shares`, or this hardware lacks, has no line: the kernel leaves it as it
    is. In every LLC alike: a guest may be moved to another one and takes its group along."""
    return "".join(line for share in shares for line in _lines(share, features))


def _lines(share: Share, features: Features) -> Iterable[str]:
    if isinstance(share, LlcShare):
        if features.cache is not None:
            mask = f"{mask_of(share.ratio, features.cache):x}"
            for resource in features.cache.resources:
                yield _line(resource, features.cache.domain_ids, mask)
    elif features.bandwidth is not None:
        percent = percent_of(share.ratio, features.bandwidth)
        yield _line(_BANDWIDTH, features.bandwidth.domain_ids, str(percent))


def _line(resource: str, domain_ids: tuple[int, ...], value: str) -> str:
    return f"{resource}:" + ";".join(f"{domain}={value}" for domain in domain_ids) + "\n"


def mask_of(ratio: float, cache: Cache) -> int:
    """Contiguous, and never more than asked for, but for the least that the hardware takes.

    At the low end, so that all who are held back share one corner and the others keep the rest to
    themselves; at the high end where devices fill the low one, since a guest that thrashes the
    ways of network cards slows everybody's traffic.
    """
    ways = min(cache.ways, max(cache.min_ways, math.floor(ratio * cache.ways + _FLOAT_SLACK)))
    low = _low(ways)
    high = low << (cache.ways - ways)
    return min((low, high), key=lambda mask: (mask & cache.shareable_mask).bit_count())


def percent_of(ratio: float, bandwidth: Bandwidth) -> int:
    steps = math.floor(ratio * _FULL_PERCENT / bandwidth.step_percent + _FLOAT_SLACK)
    return min(_FULL_PERCENT, max(bandwidth.min_percent, steps * bandwidth.step_percent))


def share_of(text: str, knob: Knob, features: Features) -> Share:
    """What a group's schemata leave of the one or the other, in the LLC where that is least.

    Raises ValueError.
    """
    group = parse_schemata(text)
    if knob is Knob.LLC:
        if features.cache is None:
            return NO_LLC_LIMIT
        resources = features.cache.resources
        masks = [int(value, 16) for name in resources for value in group.get(name, {}).values()]
        return LlcShare(min((m.bit_count() for m in masks), default=0) / features.cache.ways)
    if features.bandwidth is None:
        return NO_MEMBW_LIMIT
    percents = [int(value) for value in group.get(_BANDWIDTH, {}).values()]
    return MembwShare(min(percents, default=0) / _FULL_PERCENT)


def _low(ways: int) -> int:
    return (1 << ways) - 1
