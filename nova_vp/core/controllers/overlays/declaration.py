# SPDX-License-Identifier: Apache-2.0
"""Reasons, settings and state of the controller `overlays`."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from nova_vp.core.types.declaration import option
from nova_vp.core.types.knob import Cpus
from nova_vp.core.types.reason import Reason

NAME = "overlays"
BY_ITS_OVERLAY = "its overlay asked for it"

TUNE = Reason(
    code="overlay-tune",
    rank=500,
    label="its overlay asked for another share of the CPU",
    own_label="this server's share of a busy processor was changed for its overlay",
)
TIGHTEN = Reason(
    code="overlay-tighten",
    rank=501,
    label="its overlay asked for less CPU for it",
    own_label="this server's processor time was limited, since its overlay asked for it",
)
TRIGGER = Reason(
    code="overlay-trigger",
    rank=502,
    label="its overlay asked that it runs first for a moment",
    own_label="this server ran first for a moment, since its overlay asked for it",
)
RESIZE = Reason(
    code="overlay-memory-size",
    rank=503,
    label="its overlay asked for another memory size",
    own_label="this server's memory was resized, since its overlay asked for it",
)
CONCEDE = Reason(
    code="overlay-concede",
    rank=504,
    label="an overlay was refused several times, and limiting this server costs least",
    own_label="this server's processor time was limited for another server of its host",
    neighbour_label="another server was limited, since its overlay was refused several times",
)
BORROW = Reason(
    code="overlay-borrow",
    rank=505,
    label="a CPU was lent between islands for the servers of an overlay",
    own_label="the processors of this server were changed",
    neighbour_label="the processors of another server were changed for this one",
    is_at_once=True,
)
RETURN = Reason(
    code="overlay-return",
    rank=506,
    label="a CPU that was lent between islands was given back",
    own_label="the processors of this server were changed back",
    gives_back=True,
    is_for_host=True,
    is_at_once=True,
)
ISLAND_CAP = Reason(
    code="island-cap",
    rank=507,
    label="the servers of its island together may use so many cores",
    own_label="this server's processor time was limited",
    is_for_host=True,
)
EXCLUSIVE = Reason(
    code="island-exclusive",
    rank=508,
    label="each vCPU of its island has a CPU of its own",
    own_label="the processors of this server were changed",
    is_for_host=True,
)
REWEIGH = Reason(
    code="overlay-io",
    rank=509,
    label="its overlay asked for another share of its CPU for network and disks",
    own_label="the processor share of its network and disks was changed for its overlay",
)
REASONS = (
    TUNE,
    TIGHTEN,
    TRIGGER,
    RESIZE,
    CONCEDE,
    BORROW,
    RETURN,
    ISLAND_CAP,
    EXCLUSIVE,
    REWEIGH,
)


@dataclass(frozen=True, slots=True)
class OverlaysSettings:
    """Each field is an option of `[controller_overlays]`."""

    tune_lease_s: float = option(
        300.0,
        "Seconds after which what was tuned goes back, unless the overlay renews it or tunes it "
        "again. A call may ask for less.",
        minimum=1.0,
    )
    trigger_lease_s: float = option(
        1.0,
        "Longest time in seconds for which a trigger lets a server run first. A call may ask for "
        "less.",
        minimum=0.1,
        maximum=60.0,
    )
    trigger_times: float = option(
        8.0,
        "CPU weight of a triggered server, as a multiple of what Nova gave it.",
        minimum=1.0,
        maximum=100.0,
    )
    credit_s: float = option(
        10.0,
        "Seconds for which the servers of one overlay together may be triggered without a pause.",
        minimum=0.1,
    )
    credit_per_s: float = option(
        0.1,
        "Seconds of that credit that an overlay gains in each second: the share of time for which "
        "it can be triggered in the long run.",
        minimum=0.0,
        maximum=1.0,
    )
    project_credit_times: float = option(
        3.0,
        "Credit that all overlays of one project together have on a host, as a multiple of that of "
        "one overlay. The default lets a project with many overlays trigger no more than one with "
        "three.",
        minimum=1.0,
    )
    most_harm_ratio: float = option(
        0.04,
        "Share of its performance that a server of others may lose while a server is triggered or "
        "has a higher weight, by longer CPU waiting and by more cycles per instruction. Above it, "
        "this ends and the credit is halved. The default is the degradation of neighbours that the "
        "source found.",
        minimum=0.0,
        maximum=1.0,
    )
    borrow_lease_s: float = option(
        60.0,
        "Seconds after which a borrowed CPU goes back, unless the overlay renews it or borrows "
        "again. A call may ask for less.",
        minimum=1.0,
    )
    borrow_hold_s: float = option(
        10.0,
        "Seconds in which an island that took a CPU back lends none, and in which an overlay keeps "
        "a CPU that one of a higher priority wants. An overlay that gave CPUs back three times, by "
        "`release` or by a lease that is shorter than this, each within so many seconds, borrows "
        "none for as long. The default keeps CPUs from going back and forth.",
        minimum=0.0,
    )
    calls_per_s: float = option(
        50.0,
        "Calls of one overlay that are considered in each second. Twice as many are considered at "
        "once after a pause.",
        minimum=0.1,
    )
    escalate_nacks: int = option(
        5,
        "Refusals of one overlay in a row, for lack of resources, after which the host limits the "
        "server of another overlay that loses least by it, or escalates. The default is that of "
        "the source.",
        minimum=1,
    )


class Refusals(NamedTuple):
    in_a_row: int
    at_s: float
    """When the last one was counted."""


class Account(NamedTuple):
    """What is remembered of one overlay."""

    credit_s: float
    """Of being triggered."""
    calls: float
    """That it may make at once."""
    at_s: float
    """When both were last filled up."""
    rejected: int = 0
    """Calls in a row that were too many."""
    held_off_until_s: float = 0.0
    """Until then its calls are refused unseen."""
    served_at_s: float = 0.0
    """When a call was last granted."""
    refusals: Mapping[str, Refusals] = {}
    """For lack of CPU, by the island of the server, empty for one that has none."""
    unmet_since_s: float | None = None
    """Since when nothing on this host helps it."""
    unmet_uuid: str = ""
    """Which of its servers."""
    wants_cpu_at_s: float | None = None
    """When it was last refused a CPU that another overlay has."""
    returns: int = 0
    """Of borrowed CPUs in quick succession, by calls or by short leases."""
    returned_at_s: float = 0.0
    granted: int = 0
    """Calls since the agent started."""
    refused: int = 0


class Purse(NamedTuple):
    """What all overlays of one project together have."""

    credit_s: float
    at_s: float
    """When it was last filled up."""


class Tuned(NamedTuple):
    """How far the CPU share of one server was tuned."""

    overlay_id: str
    until_s: float
    cap_steps: int = 0
    """That it is limited by."""
    weight_times: float = 1.0
    """Its weight over what Nova gave."""
    is_up: bool = True
    """The last step."""
    changed_at_s: float = 0.0
    turns: int = 0
    """Changes of direction in quick succession."""


class Boost(NamedTuple):
    """One server that runs first for a moment."""

    overlay_id: str
    until_s: float
    times: float
    """Its weight over what Nova gave."""


class Sized(NamedTuple):
    """The memory size that an overlay asked for."""

    overlay_id: str
    until_s: float
    kib: int
    is_up: bool = False
    """The last step."""
    changed_at_s: float = 0.0
    turns: int = 0
    """Changes of direction in quick succession."""


class Reweighed(NamedTuple):
    """How far the threads of one server that serve its network and disks were tuned."""

    overlay_id: str
    until_s: float
    steps: int
    """Above what Nova gave; less than 0: below."""
    is_up: bool = True
    """The last step."""
    changed_at_s: float = 0.0
    turns: int = 0
    """Changes of direction in quick succession."""


class NewGrant(NamedTuple):
    """What a call got that the pipeline may still refuse."""

    overlay_id: str
    project_id: str
    islands: tuple[str, ...]
    """Whose lack of CPU it ends."""
    prices_s: Mapping[str, float]
    """Credit that was spent, by server."""


class Conceded(NamedTuple):
    """One server that is limited for an overlay that was refused several times."""

    overlay_id: str
    for_uuid: str
    until_s: float
    steps: int
    at_s: float = 0.0
    """Of the last step."""


class Pace(NamedTuple):
    """How one server of others does while nothing is raised beside it, as far as it is measured."""

    uuid: str
    waiting_ratio: float | None = None
    """CPU waiting."""
    wanted_cores: float = 0.0
    """That it ran on and waited for."""
    cpi: float | None = None
    l2_mpki: float = 0.0
    """By which its work is known again."""


class Harm(NamedTuple):
    """What raising one server does to those beside it."""

    overlay_id: str
    before: tuple[Pace, ...]
    at_s: float
    """Of the last sample that is in it."""
    losses: tuple[float, ...] = ()
    """How much the one that loses most lost, in the latest samples."""
    is_triggered: bool = False
    """Since the last of them."""
    quiet_samples: int = 0
    """In a row, since the server is raised no more."""


@dataclass(frozen=True, slots=True)
class Ledger:
    """What was granted and stands, and what overlays have left. By server, but for accounts."""

    accounts: Mapping[str, Account] = field(default_factory=dict)
    """By overlay."""
    purses: Mapping[str, Purse] = field(default_factory=dict)
    """By project, those that are not full: whoever registers its overlays anew gains nothing."""
    tuned: Mapping[str, Tuned] = field(default_factory=dict)
    boosts: Mapping[str, Boost] = field(default_factory=dict)
    sizes: Mapping[str, Sized] = field(default_factory=dict)
    emulators: Mapping[str, Reweighed] = field(default_factory=dict)
    conceded: Mapping[str, Conceded] = field(default_factory=dict)
    harms: Mapping[str, Harm] = field(default_factory=dict)
    places: Mapping[str, Cpus] = field(default_factory=dict)
    """Where servers ran before CPUs were lent."""
    caps: Mapping[str, float] = field(default_factory=dict)
    """Cores of each vCPU that the cap of the island leaves a server."""
    grants: Mapping[str, NewGrant] = field(default_factory=dict)
    """By call of this run, until it is known how it is answered in the end."""
    lend_again_s: Mapping[str, float] = field(default_factory=dict)
    """By island that took a CPU back: when it lends again."""
