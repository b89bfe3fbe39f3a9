# SPDX-License-Identifier: Apache-2.0
"""Background servers get less CPU and less cache while another server of their host is busy."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from nova_vp.core.controllers.base import Answer, Controller, View
from nova_vp.core.model.cpu_cap import quota_of
from nova_vp.core.model.host import allotted_cores
from nova_vp.core.model.limits import value_from_nova
from nova_vp.core.types.claim import ClaimGroup, PredictedLoss, Setting
from nova_vp.core.types.declaration import FlavorKey, option
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Knob, LlcShare, Quota
from nova_vp.core.types.reason import Reason

NAME = "background"

LIMIT = Reason(
    code="limit-background",
    rank=550,
    label="it is a background server, and another server of its host is busy",
    own_label="this background server was limited while other servers are busy",
)

BACKGROUND: FlavorKey[bool] = FlavorKey(
    key="vp:background",
    description="With `yes` the server is limited while other servers of its host are busy.",
    expected="one of yes, no",
    read=lambda text: text == "yes",
    default=False,
    allowed=("yes", "no"),
)


@dataclass(frozen=True, slots=True)
class BackgroundSettings:
    """Each field is an option of `[controller_background]`."""

    busy_ratio: float = option(
        0.5,
        "Share of its allotted CPU from which a server that is no background server is busy.",
        minimum=0.01,
        maximum=1.0,
    )
    cap_ratio: float = option(
        0.5,
        "Share of its CPU that a background server keeps. Its floor (`vp:cpu_floor`) applies.",
        minimum=0.1,
        maximum=1.0,
    )
    llc_ratio: float = option(
        0.25,
        "Share of the last-level cache that a background server keeps, if the hardware can "
        "partition the cache.",
        minimum=0.01,
        maximum=1.0,
    )
    linger_s: float = option(
        30.0,
        "Seconds for which the limits stay after no server was busy any more.",
        minimum=0.0,
    )


@dataclass(frozen=True, slots=True)
class Load:
    """What it remembers from one tick to the next."""

    busy_at_s: float | None = None
    """When a server that is no background server was busy last."""


class Background(Controller):
    name = NAME
    summary = "limits background servers while another server of the host is busy"
    settings = BackgroundSettings
    state = Load
    reasons = (LIMIT,)
    flavor_keys = (BACKGROUND,)

    def run(self, view: View, state: Load, settings: BackgroundSettings) -> Answer:
        busiest = max((_used_ratio(view, guest) for guest in _others(view)), default=0.0)
        if busiest >= settings.busy_ratio:
            state = Load(view.now_s)
        if state.busy_at_s is None or view.now_s - state.busy_at_s > settings.linger_s:
            return Answer(state)  # What is not claimed again is given back.
        return Answer(state, tuple(_limits(view, settings, busiest)))


def _others(view: View) -> Iterator[Guest]:
    return (guest for guest in view.host.guests.values() if not BACKGROUND.of(guest))


def _used_ratio(view: View, guest: Guest) -> float:
    vp = view.host.vps[guest.uuid]
    if vp.sample is None or vp.incomplete is not None:
        return 0.0  # It is idle, or was not measured in this tick.
    return vp.sample.cpu_cores / allotted_cores(guest)


def _limits(view: View, settings: BackgroundSettings, busiest: float) -> Iterator[ClaimGroup]:
    """One group for each background server: its cap and its share of the cache, as far as the host
    can set them."""
    for guest in view.host.guests.values():
        if guest.unmanaged or not guest.is_running or not BACKGROUND.of(guest):
            continue
        nova = value_from_nova(guest, Knob.CPU_CAP, view.host.applied.get(guest.uuid))
        wanted = (
            Setting(guest.uuid, Knob.CPU_CAP, quota_of(cast(Quota, nova), settings.cap_ratio)),
            Setting(guest.uuid, Knob.LLC, LlcShare(settings.llc_ratio)),
        )
        possible = tuple(one for one in wanted if one.knob in view.host.knobs)
        if possible:
            yield ClaimGroup(
                controller=NAME,
                guest_uuid=guest.uuid,
                settings=possible,
                domain_ids=(),
                reason=LIMIT,
                predicted_loss=PredictedLoss(1 - settings.cap_ratio, 0.0),
                evidence={"busiest_ratio": busiest},
            )
