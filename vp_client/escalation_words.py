# SPDX-License-Identifier: Apache-2.0
"""Escalations in readable lines: what a host asked for, whom the cluster chose, what was tried."""

from collections.abc import Iterable

from nova_vp.db.escalation_status import Status
from vp_client import words
from vp_client.words import Told


def escalations(told: Iterable[Told]) -> str:
    """What no host can mend by itself."""
    return words.lines(
        "; ".join(
            [
                f"{one['id']}: {one['at']} for {words.server(one['victim'])}",
                f"{words.kind(one)}, since {one['since']}",
                *words.grounds(one, "no help here"),
            ]
        )
        for one in told
    )


def candidates(told: Iterable[Told]) -> str:
    """Who could leave the host, and what that would bring."""
    return words.lines(
        f"{words.server(one['server'])}, the {one['role']}: "
        f"{words.percent(one['relief_ratio'])} for the victim, "
        f"{words.percent(one['others_ratio'])} for all others"
        + (f"; cannot leave: {one['obstacle']}" if one["obstacle"] else "")
        for one in told
    )


def choice(told: Told | None) -> str:
    """Whom the cluster would have migrated, and why none of the others."""
    if told is None:
        return "none"
    mover = told["mover"]
    chosen = f"{_who(mover)}: {_price(told['numbers'])}" if mover else "nobody"
    others = [
        f"not {_who(one)}: {one['detail']}; {_price(one['numbers'])}" for one in told["rejected"]
    ]
    return words.lines([chosen, *others])


def _who(candidate: Told) -> str:
    return f"{candidate['name']} ({candidate['uuid']}), the {candidate['role']}"


def _price(numbers: Told) -> str:
    """Performance-seconds: what a server does in a second that nobody disturbs."""
    told = {name: words.number(numbers[f"{name}_s"]) for name in ("copy", "cost", "gain")}
    return (
        f"{told['copy']} s to copy, costs {told['cost']} and gains {told['gain']} "
        "performance-seconds"
    )


def status(escalation_id: str, code: str) -> str:
    """With what an operator can do now."""
    if code != Status.PROPOSED.value:
        return code
    return f"{code}, and waits for\nopenstack vp escalation accept {escalation_id}"


def attempts(told: Iterable[Told]) -> str:
    return words.lines(
        f"{one['attempt']}: {words.server(one['server'])} from {one['source_host']} to "
        f"{one['dest_host'] or 'wherever Nova chooses'}: {one['status']}"
        + (f", {one['detail']}" if one["detail"] else "")
        + f"; {one['started_at']} to {one['ended_at'] or 'now'}"
        for one in told
    )
