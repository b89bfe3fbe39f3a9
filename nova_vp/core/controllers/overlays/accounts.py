# SPDX-License-Identifier: Apache-2.0
"""What an overlay may ask for: calls in each second, and credit for being triggered; and how much
credit all overlays of a project have together.

All are token buckets. Who calls more often than it may is refused unseen for a while, twice as
long each time.
"""

from dataclasses import replace

from nova_vp.core.controllers.overlays.declaration import (
    Account,
    Ledger,
    NewGrant,
    OverlaysSettings,
    Purse,
)

BURST_S = 2.0
"""Seconds whose calls may come at once."""
LEAST_HOLD_S = 0.1
MOST_DOUBLINGS = 7
MOST_HOLD_S = 10.0
"""After so long without too many calls, the next hold is short again."""


def filled(account: Account | None, now_s: float, settings: OverlaysSettings) -> Account:
    """As it is now. One that was never seen is full."""
    most_calls = BURST_S * settings.calls_per_s
    if account is None:
        return Account(settings.credit_s, most_calls, now_s)
    span_s = max(now_s - account.at_s, 0.0)
    return account._replace(
        credit_s=min(account.credit_s + span_s * settings.credit_per_s, settings.credit_s),
        calls=min(account.calls + span_s * settings.calls_per_s, most_calls),
        at_s=now_s,
    )


def purse_filled(purse: Purse | None, now_s: float, settings: OverlaysSettings) -> Purse:
    """As it is now. One that was never seen is full."""
    most_s = settings.project_credit_times * settings.credit_s
    if purse is None:
        return Purse(most_s, now_s)
    gained_s = (now_s - purse.at_s) * settings.project_credit_times * settings.credit_per_s
    return Purse(min(purse.credit_s + max(gained_s, 0.0), most_s), now_s)


def with_call(account: Account) -> tuple[Account, bool]:
    """With one call more, and whether it is considered."""
    now_s = account.at_s
    if now_s < account.held_off_until_s:
        return account, False
    is_forgiven = now_s - account.held_off_until_s > MOST_HOLD_S
    rejected = 0 if is_forgiven else account.rejected
    if account.calls >= 1.0:
        return account._replace(calls=account.calls - 1.0, rejected=rejected), True
    hold_s = min(LEAST_HOLD_S * 2 ** min(rejected, MOST_DOUBLINGS), MOST_HOLD_S)
    return account._replace(rejected=rejected + 1, held_off_until_s=now_s + hold_s), False


def counted(account: Account, *, is_granted: bool) -> Account:
    """With one call more that was answered."""
    if is_granted:
        return account._replace(granted=account.granted + 1)
    return account._replace(refused=account.refused + 1)


def served(state: Ledger, grant: NewGrant) -> Ledger:
    """Its call was granted in the end: its servers lack CPU no more."""
    account = state.accounts[grant.overlay_id]
    account = account._replace(served_at_s=account.at_s)
    if grant.islands:
        others = {k: one for k, one in account.refusals.items() if k not in grant.islands}
        account = account._replace(refusals=others, unmet_since_s=None, unmet_uuid="")
    return replace(state, accounts={**state.accounts, grant.overlay_id: account})


def refunded(state: Ledger, grant: NewGrant) -> Ledger:
    """Its call was refused after the controller had granted it: nobody runs first for it."""
    account, purse = state.accounts[grant.overlay_id], state.purses.get(grant.project_id)
    boosts = dict(state.boosts)
    for uuid, price_s in grant.prices_s.items():
        boost = boosts.pop(uuid)
        boost = boost._replace(until_s=boost.until_s - price_s)
        if boost.until_s > account.at_s:
            boosts[uuid] = boost
    back_s = sum(grant.prices_s.values())
    account = account._replace(credit_s=account.credit_s + back_s)
    purses = dict(state.purses)
    if purse is not None:
        purses[grant.project_id] = purse._replace(credit_s=purse.credit_s + back_s)
    accounts = {**state.accounts, grant.overlay_id: account}
    return replace(state, accounts=accounts, purses=purses, boosts=boosts)
