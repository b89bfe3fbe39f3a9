# SPDX-License-Identifier: Apache-2.0
"""Polluters pay (Kyoto, 2016): a server over its pollution permit loses CPU until it is under it.

The source's scheduler takes the CPU for a time slice of 30 ms. A tick is longer, so a cap lets the
server repay within some seconds instead; where the hardware can, its part of the cache is limited
first. What a server pollutes is in `attribution.py`, its quota in `accounts.py`, and how an LLC is
cleared to measure it in `dedication.py`.
"""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from nova_vp.core.controllers.base import Answer, Controller, View
from nova_vp.core.controllers.permits.accounts import (
    debts_of_absent,
    kept,
    opened,
    permit_of,
    settled,
)
from nova_vp.core.controllers.permits.attribution import Attribution
from nova_vp.core.controllers.permits.declaration import (
    FIGURES,
    LLC_PERMIT,
    NAME,
    OVER,
    OVER_ITS_PERMIT,
    PARTITION,
    REASONS,
    STAYS_OVER,
    UNDER,
    Account,
    Accounts,
    PermitsSettings,
)
from nova_vp.core.controllers.permits.dedication import SURE_RATIO, begun, continued, noted
from nova_vp.core.controllers.permits.usage import used
from nova_vp.core.model.cpu_cap import quota_of
from nova_vp.core.model.limits import value_from_nova
from nova_vp.core.types.action import Outcome
from nova_vp.core.types.asked import Asked, asked_by
from nova_vp.core.types.claim import Alternative, ClaimGroup, PredictedLoss, Setting
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import Knob, LlcShare, Quota
from nova_vp.core.types.reason import Reason, Rejection, Rung
from nova_vp.core.types.sample import Sample
from nova_vp.core.types.state import CoreState
from nova_vp.core.types.usage import Usage

SAME_CAP = 0.2
"""A cap is left as it is if the one that would be right differs by less than this share of it: no
two samples are alike."""

UNUSED_CAP = 0.9
"""Who uses less of what its cap leaves it is taken to use as small a part of a wider one."""
TICK_US = 10_000
"""Of the source's scheduler (2.2.5): three of them are a slice."""
LEAST_QUOTA_US = 1000
"""That the kernel takes."""


class Permits(Controller):
    name = NAME
    summary = "limits servers that pollute the cache beyond their permit"
    settings = PermitsSettings
    state = Accounts
    reasons = REASONS
    flavor_keys = (LLC_PERMIT,)
    figures = FIGURES

    def run(self, view: View, state: Accounts, settings: PermitsSettings) -> Answer:
        permits = {
            uuid: permit
            for uuid, guest in view.host.guests.items()
            if (permit := permit_of(asked_by(guest), settings))
        }
        attribution = Attribution(view, settings.rare_misses_per_ms)
        accounts, usage = {}, {}
        for uuid, permit in permits.items():
            accounts[uuid], usage[uuid] = _account(view, uuid, permit, attribution, state, settings)
        groups = [group for uuid in accounts for group in _claims(view, uuid, accounts, settings)]
        figures = {uuid: _figures(view.host.guests[uuid], one) for uuid, one in accounts.items()}
        absent = debts_of_absent(state.by_guest, view.host.guests, view.now_s)
        state = replace(state, by_guest={**absent, **accounts})
        is_under_way = state.dedication is not None
        state, moves, releases = continued(view, state, attribution, settings)
        if not is_under_way:
            state, moves = begun(view, state, attribution, settings)
        return Answer(state, (*groups, *moves), releases, figures, usage)

    def note(
        self, state: Accounts, outcome: Outcome, core: CoreState, settings: PermitsSettings
    ) -> Accounts:
        return noted(state, outcome, core, settings)

    def llc_permit(self, asked: Asked, settings: PermitsSettings) -> float:
        return permit_of(asked, settings)

    def kept(self, state: Accounts) -> Accounts:
        return Accounts({uuid: kept(account) for uuid, account in state.by_guest.items()})


def _account(
    view: View,
    uuid: str,
    permit: float,
    attribution: Attribution,
    state: Accounts,
    settings: PermitsSettings,
) -> tuple[Account, Usage]:
    """After this tick, and what is billed for it."""
    before = state.by_guest.get(uuid) or opened(permit, view.now_s)
    is_measured = state.dedication is not None and state.dedication.guest_uuid == uuid
    own = before.own if is_measured else attribution.learned(uuid, before.own)
    charge, why = attribution.charge(uuid, own), view.host.vps[uuid].incomplete
    unsure = before.unsure_samples
    if charge is not None:
        unsure = unsure + 1 if charge.sure_ratio < SURE_RATIO else 0
    known = replace(before, own=own, unsure_samples=unsure)
    now = settled(known, permit, charge, why, view.now_s, settings)
    usage = used(view, uuid, replace(before, permit=permit), charge)
    return _limited(view, uuid, now, settings), usage


def _limited(view: View, uuid: str, account: Account, settings: PermitsSettings) -> Account:
    """With the limits that it should have from now on. Who goes over is limited at once: a second
    at full rate may cost more than its permit pays in a minute."""
    if not account.is_over and not account.is_limited:
        return account
    is_new = not account.is_limited
    if not is_new and view.now_s - account.changed_at_s < settings.change_s:
        return account
    if is_new and _may_be_partitioned(view, uuid):
        return replace(account, is_partitioned=True, changed_at_s=view.now_s)
    ratio = _cap_ratio(view, uuid, account, settings)
    if not account.is_over and _is_released(account, ratio):
        return replace(account, is_partitioned=False, cap_ratio=None, changed_at_s=view.now_s)
    if ratio is None or not _is_due(account, ratio, settings):
        return account
    return replace(account, cap_ratio=ratio if ratio < 1.0 else None, changed_at_s=view.now_s)


def _is_released(account: Account, ratio: float | None) -> bool:
    """Of who is under its permit: all its CPU keeps it there. The source takes the CPU from any
    other one again within a tick of 10 ms, so that here its cap is what its permit pays for."""
    return account.cap_ratio is None or (ratio is not None and ratio >= 1.0)


def _may_be_partitioned(view: View, uuid: str) -> bool:
    """Less cache must not make it miss more: it would pay for what was done to it."""
    profile = view.host.undisturbed.get(uuid)
    return Knob.LLC in view.host.knobs and profile is not None and not profile.sensitivity.cache


def _cap_ratio(view: View, uuid: str, account: Account, settings: PermitsSettings) -> float | None:
    """Share of its CPU with which it repays in time, or uses what it saved. None: nobody knows what
    it does now."""
    sample, charge = view.host.vps[uuid].sample, account.charge
    if sample is None or charge is None or not charge.llc_cap_act or not sample.busiest_cores:
        return None
    guest, own = view.host.guests[uuid], _own_quota(view, uuid)
    owed = max(-account.balance, account.permit * 1000.0) if account.is_over else -account.balance
    repaid_per_ms = owed / (1000.0 * settings.repay_s)
    cores = (account.permit - repaid_per_ms) / charge.llc_cap_act
    busy_vcpus = max(sample.cpu_cores / sample.busiest_cores, 1.0)
    ratio = round(cores / busy_vcpus / own.cores / _used_ratio(account, own, sample), 3)
    return min(max(ratio, guest.cap_floor_ratio or 1.0), 1.0)


def _used_ratio(account: Account, own: Quota, sample: Sample) -> float:
    """Of what its cap leaves it. Who was not capped may use all of a cap."""
    if account.cap_ratio is None:
        return 1.0
    used = sample.busiest_cores / (account.cap_ratio * own.cores)
    return used if used < UNUSED_CAP else 1.0


def _is_due(account: Account, ratio: float, settings: PermitsSettings) -> bool:
    """Whether a cap that is there has to change: it is far off, or does not repay what is owed, or
    leaves less than was booked."""
    assert account.charge is not None  # As for every cap.
    before = account.cap_ratio or 1.0
    if abs(ratio - before) >= SAME_CAP * before:
        return True
    if account.is_over:
        return ratio < before and account.charge.misses_per_ms >= account.permit
    return ratio > before and account.has_saved_all(settings.burst_s)


def _own_quota(view: View, uuid: str) -> Quota:
    nova = value_from_nova(view.host.guests[uuid], Knob.CPU_CAP, view.host.applied.get(uuid))
    return cast(Quota, nova)


def _claims(
    view: View, uuid: str, accounts: dict[str, Account], settings: PermitsSettings
) -> Iterator[ClaimGroup]:
    guest, account = view.host.guests[uuid], accounts[uuid]
    if guest.unmanaged or not guest.is_running:
        return
    if account.is_partitioned and Knob.LLC in view.host.knobs:
        share = LlcShare(max(settings.partition_llc_ratio, view.policy.llc_floor_ratio))
        yield _group(guest, account, PARTITION, Setting(uuid, Knob.LLC, share), 0.0)
    ratio = account.cap_ratio
    if ratio is not None and guest.cap_floor_ratio is not None and Knob.CPU_CAP in view.host.knobs:
        quota = _in_ticks(quota_of(_own_quota(view, uuid), ratio))
        yield _group(guest, account, OVER, Setting(uuid, Knob.CPU_CAP, quota), 1.0 - ratio)


def _in_ticks(quota: Quota) -> Quota:
    """The same share in periods as short as the source's ticks, or as the least quota allows: who
    runs at full rate for longer evicts more than lies unused, and the others fill it again."""
    shortest_us = max(TICK_US, math.ceil(LEAST_QUOTA_US / quota.cores))
    if quota.period_us <= shortest_us:
        return quota
    return Quota(round(quota.cores * shortest_us), shortest_us)


def _group(
    guest: Guest, account: Account, reason: Reason, setting: Setting, loss_ratio: float
) -> ClaimGroup:
    never = Alternative(guest.uuid, 0, Rejection.AT_FLOOR, rung=Rung.CAP)
    return ClaimGroup(
        controller=NAME,
        guest_uuid=guest.uuid,
        settings=(setting,),
        domain_ids=(),
        reason=reason,
        predicted_loss=PredictedLoss(loss_ratio, 0.0),
        rejected=() if can_return(guest, account) else (never,),
        evidence=_evidence(account),
    )


def can_return(guest: Guest, account: Account) -> bool:
    """Whether it would come back under its permit at its floor, with all its vCPUs busy, as far as
    is known."""
    if account.charge is None:
        return True
    floor = 1.0 if guest.cap_floor_ratio is None else guest.cap_floor_ratio
    return floor * account.charge.llc_cap_act * guest.vcpus < account.permit


def _evidence(account: Account) -> dict[str, float]:
    numbers = {**_balance_of(account), **_charged(account)}
    return {name: value for name, value in numbers.items() if isinstance(value, float)}


def _figures(guest: Guest, account: Account) -> dict[str, float | str]:
    standing = UNDER
    if account.is_over:
        standing = OVER_ITS_PERMIT if can_return(guest, account) else STAYS_OVER
    return {"standing": standing, **_balance_of(account), **_charged(account)}


def _balance_of(account: Account) -> dict[str, float]:
    return {
        "permit_misses_per_ms": account.permit,
        "balance_s": account.balance / account.permit / 1000.0,
    }


def _charged(account: Account) -> dict[str, float | str]:
    """Empty: it was never measured."""
    charge = account.charge
    if charge is None:
        return {}
    return {
        "misses_per_ms": charge.misses_per_ms,
        "llc_cap_act": charge.llc_cap_act,
        "attribution": charge.how.value,
        "sure_ratio": charge.sure_ratio,
    }
