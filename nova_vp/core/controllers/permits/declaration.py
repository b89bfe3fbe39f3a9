# SPDX-License-Identifier: Apache-2.0
"""Reasons, settings, flavor key and state of the controller `permits`."""

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

from nova_vp.core.types.declaration import Figure, FlavorKey, option
from nova_vp.core.types.knob import Cpus
from nova_vp.core.types.reason import Reason
from nova_vp.core.types.state import PerfWindow

NAME = "permits"

PARTITION = Reason(
    code="over-permit-partition",
    rank=300,
    label="its LLC misses exceed its permit, so its share of the cache is limited",
    own_label="this server exceeded its cache permit, so its share of the cache was limited",
    is_for_host=True,
    limits_critical=True,
)
OVER = Reason(
    code="over-permit",
    rank=301,
    label="its LLC misses exceed its permit, so its CPU is capped",
    own_label="this server exceeded its cache permit, so its processor time was limited",
    is_for_host=True,
    limits_critical=True,
)
DEDICATE = Reason(
    code="dedicate-llc",
    rank=302,
    label="the LLC is cleared for some seconds, to measure one server undisturbed",
    own_label="this server was moved on its host for a measurement of some seconds",
    neighbour_label="servers were moved on their host for a measurement of some seconds",
    is_for_host=True,
)
DEDICATION_ENDED = Reason(
    code="dedicate-llc-ended",
    rank=303,
    label="the measurement in a cleared LLC ended, so servers go back to where they were",
    own_label="a measurement ended, so this server was moved back on its host",
    neighbour_label="a measurement ended, so servers were moved back on their host",
    gives_back=True,
    is_for_host=True,
)
REASONS = (PARTITION, OVER, DEDICATE, DEDICATION_ENDED)

AUTO = "auto"

LLC_PERMIT: FlavorKey[int | None] = FlavorKey(
    key="vp:llc_permit",
    description=(
        "The pollution permit of the server: LLC misses per millisecond that each vCPU may cause "
        "on average. `auto`: what the operator grants for each GiB of its memory. A server over "
        "its permit loses CPU until it is under it again. Unless the flavor says otherwise, its "
        "`vp:cpu_floor` is 1."
    ),
    expected="a whole number from 1 to 9999999, or auto",
    read=lambda text: None if text == AUTO else int(text),
    default=0,
    pattern=r"[1-9][0-9]{0,6}|auto",
    cap_floor_ratio=0.01,
)
"""None: `auto`. 0: the server has no permit, and may pollute as it likes."""


@dataclass(frozen=True, slots=True)
class PermitsSettings:
    """Each field is an option of `[controller_permits]`."""

    misses_per_ms_per_gib: float = option(
        5000.0,
        "LLC misses per millisecond that `vp:llc_permit=auto` grants for each GiB of a server's "
        "memory. The default shares 80 % of 100 GB/s among 256 GiB.",
        minimum=1.0,
    )
    rare_misses_per_ms: float = option(
        1000.0,
        "LLC misses per millisecond of running below which a server misses rarely. Where a server, "
        "or each of those that share an LLC with it, misses rarely, its counters alone say what "
        "it pollutes.",
        minimum=0.0,
    )
    burst_s: float = option(
        2.0,
        "Seconds of its permit that a server can save up for a burst.",
        minimum=0.0,
    )
    debt_s: float = option(
        120.0,
        "Seconds of its permit that a server can owe at most.",
        minimum=1.0,
    )
    repay_s: float = option(
        30.0,
        "Seconds in which a server over its permit repays what it owes. Fewer seconds make caps "
        "tighter, shorter and more frequent.",
        minimum=1.0,
    )
    change_s: float = option(
        5.0,
        "Least number of seconds for which a limit of a server stands as it is. A server that goes "
        "over its permit is limited at once.",
        minimum=1.0,
    )
    partition_llc_ratio: float = option(
        0.1,
        "Share of the LLC that remains for a server over its permit, if the hardware can partition "
        "the cache (resctrl) and the server does not need the cache itself. It is never less than "
        "[policy] llc_floor_ratio.",
        minimum=0.01,
        maximum=1.0,
    )

    dedication: bool = option(
        True,
        "Whether an LLC may be cleared for some seconds, in mode `enforce`, to measure a server "
        "with a permit whose own misses cannot be told otherwise: co-runners that miss frequently "
        "run in another LLC meanwhile, if there is room.",
    )
    dedication_s: float = option(
        12.0,
        "Seconds for which an LLC is cleared. The servers go back no earlier than [policy] "
        "move_hold_s after they were moved.",
        minimum=5.0,
    )
    dedication_pause_s: float = option(
        60.0,
        "Least number of seconds on a host between two of these measurements.",
        minimum=1.0,
    )
    dedication_again_s: float = option(
        3600.0,
        "Least number of seconds between two of these measurements of one server.",
        minimum=1.0,
    )
    dedication_most_loss_ratio: float = option(
        0.12,
        "Share of its performance that another server may lose while an LLC is cleared. A "
        "measurement that is predicted to cost more is not made, and one that does ends at once.",
        minimum=0.0,
        maximum=1.0,
    )
    dedication_cost_ratio: float = option(
        0.005,
        "Share of its performance that the server that loses most may lose to these measurements "
        "on average: the more one cost, the longer the pause after it.",
        minimum=0.0001,
        maximum=1.0,
    )


class How(enum.Enum):
    """How pollution was attributed to a server."""

    PLAIN = "plain"
    """As its counters say: it, or each of its co-runners, misses rarely."""
    PROFILE = "profile"
    """At the memory factor of its undisturbed profile."""
    DEDICATED = "dedicated"
    """At the memory factor that was measured while it had an LLC to itself."""
    ESTIMATE = "estimate"
    """It has no profile: without what the model thinks that its co-runners cost it."""


UNDER, OVER_ITS_PERMIT, STAYS_OVER = "under", "over", "over-at-its-floor"
"""The last: over, and its floor is too high for it to return."""

FIGURES = (
    Figure(
        name="standing",
        label="pollution permit",
        words=(UNDER, OVER_ITS_PERMIT, STAYS_OVER),
        is_for_tenants=True,
    ),
    Figure(
        name="permit_misses_per_ms",
        label="permitted LLC misses per ms of wall time",
        is_for_tenants=True,
    ),
    Figure(
        name="balance_s",
        label="balance in seconds of its permit",
        is_for_tenants=True,
    ),
    Figure(name="misses_per_ms", label="LLC misses per ms that it is charged"),
    Figure(name="llc_cap_act", label="LLC misses per ms of running that it is charged"),
    Figure(
        name="attribution",
        label="how they are attributed to it",
        words=tuple(how.value for how in How),
    ),
    Figure(name="sure_ratio", label="how sure that is, at most 1"),
)


class Charge(NamedTuple):
    """What one server pollutes, and how far that is known."""

    llc_cap_act: float
    """Equation 1: LLC misses of its own per ms of running, of one vCPU."""
    ms_run_per_ms: float
    """Of all its vCPUs, per ms of wall time: the cores that it used."""
    span_s: float
    """Of wall time, that it is for."""
    how: How
    sure_ratio: float
    """1: as sure as its counters are. Less: that share of it is not the model's guess."""

    @property
    def misses_per_ms(self) -> float:
        """Debit per ms of wall time."""
        return self.llc_cap_act * self.ms_run_per_ms


class Own(NamedTuple):
    """What one server does with the cache when nobody disturbs it."""

    memory_factor: float
    l2_mpki: float
    sure_ratio: float
    """Share of its memory factor that is not the model's guess."""
    evicted_ratio: float
    """Of its hits, what co-runners cost it when this was learned."""
    how: How = How.PROFILE


@dataclass(frozen=True, slots=True)
class Account:
    """One server's pollution quota."""

    balance: float = 0.0
    """In LLC misses. Below 0 the server is OVER, else UNDER."""
    at_s: float | None = None
    """When it was settled last; None: not in this run of the agent."""
    permit: float = 0.0
    """LLC misses per ms of wall time, of all its vCPUs: the credit."""
    charge: Charge | None = None
    """The last one; None: it was never measured."""
    is_partitioned: bool = False
    cap_ratio: float | None = None
    """Share that it keeps of the CPU that Nova gave; None: it is not capped."""
    changed_at_s: float = -math.inf
    """When its limits were last set, changed or removed."""
    own: Own | None = None
    """None: nothing is known of it yet."""
    unsure_samples: int = 0
    """In a row, in which its charge was not sure."""
    dedicated_at_s: float = -math.inf
    """When it last had an LLC to itself for a measurement."""

    @property
    def is_over(self) -> bool:
        return self.balance < 0

    @property
    def is_limited(self) -> bool:
        return self.is_partitioned or self.cap_ratio is not None

    def has_saved_all(self, burst_s: float) -> bool:
        return self.balance >= self.permit * 1000.0 * burst_s


class Dedication(NamedTuple):
    """One measurement of a server that has an LLC to itself."""

    guest_uuid: str
    began_at_s: float
    places: tuple[tuple[str, Cpus], ...]
    """Of those that were moved for it, where they were."""
    before: Mapping[str, PerfWindow]
    """How the others ran before it, by UUID."""
    lost: Mapping[str, float] = MappingProxyType({})
    """By UUID, the shares of performance that they lost in each tick, summed."""
    ticks: int = 0
    own: Own | None = None
    samples: int = 0
    """Of so many is `own` the mean."""
    is_over: bool = False
    """All that is left is to put everybody back."""

    @property
    def loss_ratio(self) -> float:
        """What it costs the one that loses most."""
        return max([0.0, *self.lost.values()]) / max(self.ticks, 1)


@dataclass(frozen=True, slots=True)
class Accounts:
    """Of one host."""

    by_guest: Mapping[str, Account] = field(default_factory=dict)
    """By server with a permit."""
    dedication: Dedication | None = None
    """Under way now."""
    dedicate_from_s: float = -math.inf
    """No earlier may the next one begin."""
