# SPDX-License-Identifier: Apache-2.0
"""Escalations as text: the request of the host, the selected server, the migration attempts."""

from collections.abc import Iterable

from nova_vp.escalation_status import Status
from vp_client import formatters
from vp_client.formatters import Told


def escalations(told: Iterable[Told]) -> str:
    """Degradations that no action on the host resolves."""
    return formatters.lines(
        "; ".join(
            [
                f"{one['id']}: {one['at']} for {formatters.server(one['victim'])}",
                f"{formatters.kind(one)}, since {one['since']}",
                *formatters.grounds(one, "rejected"),
            ]
        )
        for one in told
    )


def candidates(told: Iterable[Told]) -> str:
    """Who could leave the host, and what that would bring."""
    return formatters.lines(
        f"{formatters.server(one['server'])}, the {one['role']}: predicted gain "
        f"{formatters.percent(one['relief_ratio'])} for the victim, "
        f"{formatters.percent(one['others_ratio'])} for all others"
        + (f"; cannot be migrated: {one['obstacle']}" if one["obstacle"] else "")
        for one in told
    )


def choice(told: Told | None) -> str:
    """Whom the cluster would have migrated, and why none of the others."""
    if told is None:
        return "none"
    mover = told["mover"]
    chosen = f"{_who(mover)}: {_price(told['numbers'])}" if mover else "no server"
    others = [
        f"rejected {_who(one)}: {one['detail']}; {_price(one['numbers'])}"
        for one in told["rejected"]
    ]
    return formatters.lines([chosen, *others])


def _who(candidate: Told) -> str:
    return f"{candidate['name']} ({candidate['uuid']}), the {candidate['role']}"


def _price(numbers: Told) -> str:
    """Performance-seconds: what a server does in a second that nobody disturbs."""
    told = {name: formatters.number(numbers[f"{name}_s"]) for name in ("copy", "cost", "gain")}
    return (
        f"copy time {told['copy']} s, cost {told['cost']} and gain {told['gain']} "
        "performance-seconds"
    )


def status(escalation_id: str, code: str) -> str:
    """With what an operator can do now."""
    if code != Status.PROPOSED.value:
        return code
    return f"{code}; start the migration with\nopenstack vp escalation accept {escalation_id}"


def attempts(told: Iterable[Told]) -> str:
    return formatters.lines(
        f"{one['attempt']}: {formatters.server(one['server'])} from {one['source_host']} to "
        f"{one['dest_host'] or 'a host that Nova selects'}: {one['status']}"
        + (f", {one['detail']}" if one["detail"] else "")
        + f"; {one['started_at']} to {one['ended_at'] or 'now'}"
        for one in told
    )


ANSWERED = ("observed", "refused")
"""Without a migration: what would have been done, or why nothing can be, stands in the ledger."""


def asked_of_cluster(vp: Told, latest: Iterable[Told]) -> dict[str, str]:
    """How far each is. Hosts number what they ask for by themselves; these are the ids of the
    cluster's ledger, which may know of one before the next report of the host is in."""
    kinds = {one["kind"] for one in vp["escalations"]}
    return {
        one["id"]: one["status"]
        for one in latest
        if one["victim"]["server_id"] == vp["server_id"]
        and (not kinds or one["kind"] in kinds)
        and _is_of_now(one, vp)
    }


def _is_of_now(escalation: Told, vp: Told) -> bool:
    """It stands, or since the harm began the cluster said why nobody is moved."""
    if escalation["settled_at"] is None:
        return True
    found = (vp["last_known"] or vp)["interference"]
    is_answered = escalation["status"] in ANSWERED
    return is_answered and found is not None and str(escalation["received_at"]) >= found["since"]
