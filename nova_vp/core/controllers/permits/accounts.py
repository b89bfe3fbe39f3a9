# SPDX-License-Identifier: Apache-2.0
"""The pollution quota of each server (Kyoto, 2016, 3.2): debited by what it pollutes, credited by
its permit.

Equation 1 is a rate per ms of running, which a cap does not lower. So the debit is that rate times
the ms run, and the credit the permit times the ms of wall time.
"""

from collections.abc import Container, Mapping
from dataclasses import replace

from nova_vp.core.controllers.permits.declaration import (
    LLC_PERMIT,
    Account,
    Charge,
    PermitsSettings,
)
from nova_vp.core.types.asked import Asked
from nova_vp.core.types.sample import Incomplete

_KILO = 1000.0
_KIB_PER_GIB = 1024.0 * 1024.0


def permit_of(asked: Asked, settings: PermitsSettings) -> float:
    """LLC misses per ms of wall time, of all its vCPUs; 0: it has no permit."""
    per_vcpu = LLC_PERMIT.among(asked.keys)
    if per_vcpu is None:
        return settings.misses_per_ms_per_gib * asked.memory_kib / _KIB_PER_GIB
    return float(per_vcpu * asked.vcpus)


def opened(permit: float, now_s: float) -> Account:
    """Of a server that is seen for the first time."""
    return Account(at_s=now_s, permit=permit)


def kept(account: Account) -> Account:
    """What of it outlives the agent: a restart must neither forgive what it owes nor take what it
    has saved."""
    return Account(balance=account.balance, permit=account.permit, own=account.own)


def debts_of_absent(
    accounts: Mapping[str, Account], here: Container[str], now_s: float
) -> dict[str, Account]:
    """Accounts of servers that are not here, as while one is rebooted. They earn their permits, and
    are forgotten once they owe nothing, which is after `debt_s` at the latest."""
    found = {}
    for uuid, account in accounts.items():
        if uuid not in here and account.is_over:
            earned = account.permit * _KILO * since_settled_s(account, now_s)
            owed = Account(account.balance + earned, now_s, account.permit, own=account.own)
            if owed.is_over:
                found[uuid] = owed
    return found


def since_settled_s(account: Account, now_s: float) -> float:
    """0 where it was kept by an earlier run of the agent: nothing is earned or booked meanwhile."""
    return 0.0 if account.at_s is None else now_s - account.at_s


def settled(
    account: Account,
    permit: float,
    charge: Charge | None,
    incomplete: Incomplete | None,
    now_s: float,
    settings: PermitsSettings,
) -> Account:
    """After the ms of wall time since the last tick. Nothing is debited, nor credited, for a time
    in which nobody could see what the server did; a stopped server pollutes nothing."""
    if charge is None and incomplete is not Incomplete.STOPPED:
        return replace(account, at_s=now_s, permit=permit)
    ms = _KILO * (charge.span_s if charge else since_settled_s(account, now_s))
    debit = charge.misses_per_ms * ms if charge else 0.0
    balance = account.balance + permit * ms - debit
    most = permit * _KILO * settings.burst_s
    least = -permit * _KILO * settings.debt_s
    return replace(
        account,
        balance=min(max(balance, least), most),
        at_s=now_s,
        permit=permit,
        charge=charge or account.charge,
    )
