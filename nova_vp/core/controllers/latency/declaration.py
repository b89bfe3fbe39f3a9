# SPDX-License-Identifier: Apache-2.0
"""Reasons, settings, figures and state of the controller `latency`."""

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from nova_vp.core.controllers.latency.cpi_models import cpi_models_of
from nova_vp.core.types.declaration import Figure, option
from nova_vp.core.types.reason import Reason

NAME = "latency"

LIMIT = Reason(
    code="best-effort-limit",
    rank=200,
    label="it is best-effort and gets the CPU that latency-critical servers leave",
    own_label="this server is best-effort: its processor time was limited",
    is_for_host=True,
)
SUSPEND = Reason(
    code="best-effort-suspend",
    rank=201,
    label="it is best-effort and suspended, since a latency-critical server needs the host",
    own_label="this server is best-effort: it was suspended",
    is_for_host=True,
)
WEIGHT = Reason(
    code="latency-weight",
    rank=202,
    label="latency-critical servers come before best-effort ones where CPU is short",
    own_label="this server's share of a busy processor was set by its class",
    is_for_host=True,
)
PARTITION = Reason(
    code="best-effort-partition",
    rank=203,
    label="it is beside a latency-critical server, so its cache or bandwidth is limited",
    own_label="this server is best-effort: its share of the cache or the memory was limited",
    is_for_host=True,
)
REASONS = (LIMIT, SUSPEND, WEIGHT, PARTITION)


class Loop(enum.Enum):
    """`control_loop`: the source's four (Padala, 2020), and ours."""

    ADAPTIVE = "adaptive"
    CPI = "cpi"
    LATENCY = "latency"
    HYBRID = "hybrid"
    HYBRID_TUNED = "hybrid-tuned"


@dataclass(frozen=True, slots=True)
class LatencySettings:
    """Each field is an option of `[controller_latency]`."""

    control_loop: Loop = option(
        Loop.ADAPTIVE,
        "Which loop sets the CPU of best-effort servers beside latency-critical ones.",
        choices={
            Loop.ADAPTIVE: "learns how latency answers to load and to the CPU of best-effort "
            "servers, and keeps both below the target",
            Loop.CPI: "by the cycles per instruction and the CPU use of the latency-critical "
            "server; needs counters",
            Loop.LATENCY: "one level up as long as the target is met, else to the minimum",
            Loop.HYBRID: "by slack and load; best-effort servers stop above 85 % of the maximum",
            Loop.HYBRID_TUNED: "the same in smaller steps; they stop above 95 % of the maximum",
        },
    )
    cpi_models: str = option(
        "",
        "What `vp-agent learn-cpi` printed, for each latency-critical server: "
        "`UUID=threshold/cores`, separated by commas. The threshold is in cycles per instruction, "
        "the cores are the most that the server uses. A server that is not listed is judged by "
        "its undisturbed profile and all of its vCPUs.",
        check=cpi_models_of,
    )
    report_age_s: float = option(
        10.0,
        "Age in seconds from which a latency report says nothing any more.",
        minimum=1.0,
    )
    hold_s: float = option(
        30.0,
        "Seconds of silence of an application in which best-effort servers keep what they have.",
        minimum=0.0,
    )
    retreat_s: float = option(
        120.0,
        "Seconds of silence after that, in which they lose a twentieth of their CPU every two "
        "seconds. Afterwards the loop `cpi` alone rules.",
        minimum=0.0,
    )
    starve_s: float = option(
        3600.0,
        "Seconds for which the latency-critical servers of one project may leave a best-effort "
        "server of another less than a quarter of what it could use, or less than its floor if "
        "that is more, if it is held back by that. One second is regained in four. Afterwards they "
        "limit the CPU of no server of others until half of them are regained.",
        minimum=1.0,
    )
    starve_busy_s: float = option(
        86_400.0,
        "The same while the latency-critical server is busy: it uses or waits for at least half of "
        "the most CPU that it uses, as the host measures it. One budget is spent for both, the "
        "slower the larger this is. It counts as `starve_s` where it is below that.",
        minimum=1.0,
    )
    best_effort_llc_ratio: float = option(
        0.25,
        "Share of the LLC that a best-effort server may fill beside a latency-critical one, under "
        "`adaptive` and where the hardware can partition the cache (resctrl).",
        minimum=0.01,
        maximum=1.0,
    )
    best_effort_membw_ratio: float = option(
        0.5,
        "Share of the memory bandwidth that a best-effort server may use beside a latency-critical "
        "one, under `adaptive` and where the hardware can limit it (resctrl).",
        minimum=0.01,
        maximum=1.0,
    )


class Ruling(enum.Enum):
    """What decides for one latency-critical server now."""

    LATENCY = "latency"
    """Its loop, by what its application reports."""
    HOLD = "hold"
    """Its application is silent: nothing changes."""
    RETREAT = "retreat"
    """It is silent for longer: best-effort servers get less and less."""
    CPI = "cpi"
    """It has no target, or is silent for too long."""
    CPU = "cpu"
    """As `cpi`, but nobody counts its cycles: its CPU use alone."""
    STARVED = "cpi-starved"
    """Its project has starved others' best-effort servers for too long: only its own are limited,
    by the loop `cpi`."""


FIGURES = (
    Figure(
        name="ruled_by",
        label="what rules best-effort servers beside it",
        words=tuple(one.value for one in Ruling),
        is_for_tenants=True,
    ),
    Figure(name="slack_ratio", label="distance to its latency target, as a share of it"),
    Figure(name="best_effort_cores", label="CPU that it leaves to best-effort servers"),
    Figure(name="busy_ratio", label="CPU that it uses and waits for, as a share of its most"),
    Figure(name="starve_left_s", label="seconds for which its project may still starve others"),
)


FIRST_NOISE = 0.15
"""Before anything was seen of it."""


class Response(NamedTuple):
    """What was learned of how ln(latency / target) of one server answers to its load and to the CPU
    of best-effort servers: its value and its slopes at the last point, and how unsure they are."""

    load_ratio: float = 0.0
    cores: float = 0.0
    answer: float = 0.0
    per_load: float = 4.0
    per_core: float = 0.4
    samples: int = 0
    answer_variance: float = 100.0
    answer_load: float = 0.0
    """Covariance, as the next and the last."""
    answer_core: float = 0.0
    load_variance: float = 9.0
    core_variance: float = 0.04
    load_core: float = 0.0
    noise: float = FIRST_NOISE
    """Standard deviation of one sample of ln(latency), as it was seen lately."""


NOTHING_LEARNED = Response()


class Watch(NamedTuple):
    """What is remembered for one latency-critical server."""

    generation: str
    begun_at_s: float
    cores: float = 0.0
    """That best-effort servers may use together; 0: their least."""
    is_unlimited: bool = False
    is_suspended: bool = False
    level: int = 0
    quiet_cycles: int = 0
    is_growing: bool = False
    is_enabled: bool = False
    cool_until_s: float = -math.inf
    main_at_s: float = -math.inf
    """When the monitor of CPI, or latency, or the top controller looks next."""
    sub_at_s: float = -math.inf
    """When the monitor of CPU, or the sub-controller, or `adaptive`, acts next."""
    instructions: float = 0.0
    """Since the monitor of CPI looked last, as the next."""
    cycles: float = 0.0
    is_blind: bool = False
    """The monitor of CPI saw no instructions when it looked last: nobody counts them."""
    cpu_samples: int = 0
    """Since the monitor of CPU looked last, as the next."""
    cpu_sum: float = 0.0
    """CPU of all servers in these samples."""
    reported_at_s: float = -math.inf
    """When the last report that `adaptive` learned from was measured."""
    worst_ms: float = 0.0
    """The highest latency reported since `adaptive` acted last."""
    load_ratio: float | None = None
    """When `adaptive` acted last."""
    load_jump: float = 0.0
    """How far the load moves between two of its looks; old moves fade."""
    left_over_more: float = 0.0
    """Of all that best-effort servers can use: so much more may be left over, since the caps of
    single vCPUs held them back."""
    given_cores: float = 0.0
    """What best-effort servers beside it were really given in the last tick, together."""
    is_overruled: bool = False
    """Others left each of them less then."""
    response: Response = NOTHING_LEARNED
    loop: Loop = Loop.ADAPTIVE
    """That ruled in the last tick, or was silent then."""


@dataclass(frozen=True, slots=True)
class Watches:
    """Of one host."""

    by_guest: Mapping[str, Watch] = field(default_factory=dict)
    """By latency-critical server."""
    starved_s: Mapping[str, float] = field(default_factory=dict)
    """By project: what is spent of its `starve_s`."""
    starving: frozenset[str] = frozenset()
    """Projects that did so for too long."""
    at_s: float | None = None
    """The last tick."""
