# SPDX-License-Identifier: Apache-2.0
"""`vp:` flavor extra specs: one table of keys and allowed values, and the only parser of them.

Agent and scheduler filter parse with it, Nova's API validates with it (`nova_vp.compute`): what one
refuses the other refuses. An older flavor still reaches agent and filter unchecked. Keys that one
controller alone goes by are declared in its folder (`FlavorKey`).
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from nova_vp import controllers
from nova_vp.core.types.declaration import FlavorKey
from nova_vp.core.types.guest import Isolation
from nova_vp.core.types.service_level import DEFAULT_PERCENTILE, ServiceClass
from nova_vp.wire.schema_types import (
    LEAST_LEVEL,
    LEAST_PERCENTILE,
    MOST_LATENCY_MS,
    MOST_LOAD,
    MOST_PERCENTILE,
)

NAMESPACE = "vp:"
DEFAULT_CAP_FLOOR_RATIO = 0.5
"""Of guests whose flavor has any `vp:` key; the others are never capped."""
LEAST_CAP_FLOOR_RATIO = 0.01


@dataclass(frozen=True, slots=True)
class FlavorSpec:
    """What a flavor asks of us."""

    isolation: Isolation = Isolation.NONE
    is_managed: bool = True
    group: str = ""
    """Servers of one project that say the same are one VP; empty: the server is its own."""
    priority: float = 1.0
    cap_floor_ratio: float | None = None
    """Least share of each vCPU that a cap leaves; None: never capped."""
    expects: int | None = None
    """State that a server nobody has measured is taken to have; None: the flavor says nothing."""
    service_class: ServiceClass | None = None
    latency_target_ms: float | None = None
    latency_percentile: float = DEFAULT_PERCENTILE
    max_load: float | None = None
    may_suspend: bool = False
    controller_keys: tuple[tuple[str, str], ...] = ()
    """Keys that controllers declare, each with its value as text."""


@dataclass(frozen=True, slots=True)
class Spec(FlavorKey[Any]):
    """A key that no controller declares, since more than one of them, or none, goes by it."""

    field: str = ""
    """Of `FlavorSpec`."""
    cap_floor_ratios: Mapping[str, float] = dataclasses.field(default_factory=dict)
    """By value, as `cap_floor_ratio`, where it is not the same for all values."""

    def cap_floor_ratio_of(self, value: str) -> float | None:
        return self.cap_floor_ratios.get(value, self.cap_floor_ratio)


def _number(least: float, most: float) -> Callable[[str], float]:
    def read(value: str) -> float:
        number = float(value)
        if not least <= number <= most:
            raise ValueError(f"{value} is not between {least} and {most}")
        return number

    return read


_EXPECTED_STATES = {
    "quiet": 0,
    "cache": 1,
    "mixed": 4,
    "streaming": 8,
    **{str(number): number for number in range(9)},
}
_ISOLATIONS = tuple(isolation.value for isolation in Isolation)
_CLASSES = tuple(one.value for one in ServiceClass)
_YES_NO = ("yes", "no")

SPECS = (
    Spec(
        key="vp:isolation",
        field="isolation",
        default=None,
        description=(
            "How strongly the server is protected from interference. `strict`: it is placed only "
            "where neither it nor another strict server is predicted to be degraded; `soft`: such "
            "hosts are preferred; `none`: no preference."
        ),
        expected=f"one of {', '.join(_ISOLATIONS)}",
        read=Isolation,
        allowed=_ISOLATIONS,
    ),
    Spec(
        key="vp:manage",
        field="is_managed",
        default=None,
        description=(
            "Whether nova-vp may manage the server: place its vCPUs within the CPUs that Nova "
            "allows, cap its CPU, move its memory. With `no` the server is measured, but not "
            "changed, whatever its other `vp:` keys are."
        ),
        expected="one of yes, no",
        read=lambda value: value == "yes",
        allowed=_YES_NO,
    ),
    Spec(
        key="vp:group",
        field="group",
        default=None,
        description=(
            "The application that the server belongs to. Servers of one project with the same "
            "group form one virtual platform (VP)."
        ),
        expected="a name of up to 64 letters, digits, dots, hyphens and underscores",
        read=str,
        pattern=r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}",
    ),
    Spec(
        key="vp:priority",
        field="priority",
        default=None,
        description=(
            "The weight of the server when the needs of servers conflict. The default is 1."
        ),
        expected="a number from 0.1 to 10, such as 2.5",
        read=_number(0.1, 10.0),
        pattern=r"[0-9]{1,2}(\.[0-9]{1,3})?",
    ),
    Spec(
        key="vp:cpu_floor",
        field="cap_floor_ratio",
        default=None,
        description=(
            "The least share of each vCPU, in percent, that a CPU cap leaves to the server. The "
            "default is 50, unless another key of the flavor sets another one; with 100 the server "
            "is never capped. Servers whose flavor has no `vp:` key are never capped."
        ),
        expected="a percentage from 1 to 100, without a sign",
        read=lambda value: int(value) / 100,
        pattern=r"[1-9][0-9]?|100",
    ),
    Spec(
        key="vp:expects",
        field="expects",
        default=None,
        description=(
            "The expected behaviour of the server, used for its placement until it is measured: "
            "`quiet` (state 0), `cache` (state 1: it depends on the last-level cache), `mixed` "
            "(state 4), `streaming` (state 8: it streams through memory), or the number of one of "
            "the nine states."
        ),
        expected="one of quiet, cache, mixed, streaming, or a state from 0 to 8",
        read=_EXPECTED_STATES.__getitem__,
        allowed=tuple(_EXPECTED_STATES),
    ),
    Spec(
        key="vp:class",
        field="service_class",
        default=None,
        description=(
            "What the server is for. `latency-critical`: its requests must be answered in time; "
            "`best-effort`: it gets the CPU that latency-critical servers leave, and its "
            "`vp:cpu_floor` is 1 unless the flavor sets another one."
        ),
        expected=f"one of {', '.join(_CLASSES)}",
        read=ServiceClass,
        allowed=_CLASSES,
        cap_floor_ratios={ServiceClass.BEST_EFFORT.value: LEAST_CAP_FLOOR_RATIO},
    ),
    Spec(
        key="vp:latency_target_ms",
        field="latency_target_ms",
        default=None,
        description=(
            "The latency, in milliseconds, within which a latency-critical server must answer "
            "`vp:latency_percentile` percent of its requests. Its application reports the latency."
        ),
        expected="a number of milliseconds from 0.001 to 600000, such as 10",
        read=_number(LEAST_LEVEL, MOST_LATENCY_MS),
        pattern=r"[0-9]{1,6}(\.[0-9]{1,3})?",
    ),
    Spec(
        key="vp:latency_percentile",
        field="latency_percentile",
        default=None,
        description=(
            "The percentile that `vp:latency_target_ms`, and the latency that the application "
            "reports, are for. The default is 95."
        ),
        expected="a percentile from 50 to 99.999, such as 99.9",
        read=_number(LEAST_PERCENTILE, MOST_PERCENTILE),
        pattern=r"[0-9]{2}(\.[0-9]{1,3})?",
    ),
    Spec(
        key="vp:max_load",
        field="max_load",
        default=None,
        description=(
            "The largest load that a latency-critical server serves within its target, in the unit "
            "in which its application reports load, such as requests per second."
        ),
        expected="a number from 0.001 to 1000000000000, such as 450000",
        read=_number(LEAST_LEVEL, MOST_LOAD),
        pattern=r"[0-9]{1,13}(\.[0-9]{1,3})?",
    ),
    Spec(
        key="vp:suspend",
        field="may_suspend",
        default=None,
        description=(
            "Whether a best-effort server may be held to 1 ms of CPU in each second for some time. "
            "With `yes` its `vp:cpu_floor` does not hold, with `no`, the default, it does."
        ),
        expected="one of yes, no",
        read=lambda value: value == "yes",
        allowed=_YES_NO,
    ),
)


_CONTRADICTING = {
    ServiceClass.BEST_EFFORT.value: frozenset(
        {"vp:latency_target_ms", "vp:latency_percentile", "vp:max_load"}
    ),
    ServiceClass.LATENCY_CRITICAL.value: frozenset({"vp:suspend"}),
}
"""By value of `vp:class`: keys that promise a server what its class takes from it."""


@functools.cache
def by_key() -> Mapping[str, FlavorKey[Any]]:
    """Those of the installed controllers too; none of them takes the place of one of these."""
    of_controllers = {key.key: key for key in controllers.flavor_keys()}
    ours: dict[str, FlavorKey[Any]] = {spec.key: spec for spec in SPECS}
    return {**ours, **{key: one for key, one in of_controllers.items() if key not in ours}}


class InvalidFlavorSpec(ValueError):
    """A `vp:` key or value that does not exist. The message names it and what is allowed."""


def parse(extra_specs: Mapping[str, str]) -> FlavorSpec:
    """Raises InvalidFlavorSpec naming every fault; keys of other namespaces are not ours."""
    ours = {key: value for key, value in extra_specs.items() if key.startswith(NAMESPACE)}
    faults = [told for key, value in sorted(ours.items()) if (told := fault(key, value))]
    faults += contradictions(ours)
    if faults:
        raise InvalidFlavorSpec("; ".join(faults))
    if not ours:
        return FlavorSpec()
    asked = {spec.field: spec.read(ours[spec.key]) for spec in SPECS if spec.key in ours}
    others = sorted(ours.items() - {(spec.key, ours.get(spec.key)) for spec in SPECS})
    floor = asked.pop("cap_floor_ratio", _default_floor(ours))
    floor = floor if asked.get("is_managed", True) else None
    return FlavorSpec(cap_floor_ratio=floor, controller_keys=tuple(others), **asked)


def contradictions(asked: Mapping[str, str]) -> list[str]:
    """What contradicts the class, of values that are allowed each for itself. Nova's API is asked
    for each key alone, and cannot refuse these."""
    class_of = asked.get("vp:class", "")
    contradicting = _CONTRADICTING.get(class_of, frozenset())
    return [
        f"{key}={value[:80]!r} contradicts vp:class={class_of}: remove one of the two"
        for key, value in sorted(asked.items())
        if key in contradicting and value != "no"
    ]


def _default_floor(asked: Mapping[str, str]) -> float:
    floors = (_floor_of(by_key()[key], value) for key, value in asked.items())
    return min((one for one in floors if one is not None), default=DEFAULT_CAP_FLOOR_RATIO)


def _floor_of(key: FlavorKey[Any], value: str) -> float | None:
    return key.cap_floor_ratio_of(value) if isinstance(key, Spec) else key.cap_floor_ratio


def fault(key: str, value: str) -> str | None:
    """What is wrong with it and what is allowed; None: nothing is."""
    spec = by_key().get(key)
    if spec is None:
        return unknown_key(key)
    refusal = f"{key}={value[:80]!r} is not allowed: use {spec.expected}"
    if not spec.has_form(value):
        return refusal
    try:
        spec.read(value)
    except Exception:  # Of a controller of another package, whatever it raises.
        return refusal
    return None


def unknown_key(key: str) -> str:
    return f"{key[:80]} is not an extra spec of nova-vp: use one of {', '.join(by_key())}"
