# SPDX-License-Identifier: Apache-2.0
"""Hosts as text: their counters, nodes and caches, what is contended there, and who runs there."""

from collections.abc import Iterable
from typing import Any

from vp_client import degradation_formatters, formatters
from vp_client.client import WhatIfAnswer
from vp_client.formatters import Told


def counters(told: Told) -> str:
    return formatters.lines(
        [told["source"], *(f"problem: {problem}" for problem in told["problems"])]
    )


def steal(ratio: float | None) -> str:
    return formatters.UNKNOWN if ratio is None else formatters.percent(ratio)


def nodes(told: Iterable[Told]) -> str:
    return formatters.lines(
        f"node {node['node']}: {formatters.number(node['misses_per_s'])} misses/s, {_limit(node)}"
        + (", hot" if node["is_hot"] else "")
        + f"; summed MPKI {formatters.number(node['mpki'])}"
        for node in told
    )


def _limit(node: Told) -> str:
    limit = node["limit_misses_per_s"]
    return "limit not calibrated" if limit is None else f"limit {formatters.number(limit)}"


def contention(told: Iterable[Told]) -> str:
    return formatters.lines(
        f"{one['kind']}: {one['meaning']}: {', '.join(map(formatters.name, one['servers']))}"
        for one in told
    )


def unmanaged_suspects(told: Iterable[Told]) -> str:
    return formatters.lines(
        f"{formatters.name(one)}: {one['reason']}: {one['detail']}" for one in told
    )


def heat_domains(told: Iterable[Told]) -> str:
    """One line for each: who is there, by state."""
    return "\n".join(
        f"{one['id']}: {one['servers_count']} servers, {one['hurt_count']} degraded"
        + "".join(f", {s['servers_count']} x {s['state']['number']}" for s in one["states"])
        for one in told
    )


def heat_nodes(told: Iterable[Told]) -> str:
    return "\n".join(
        f"{one['node']}: {formatters.number(one['misses_per_s'])}/s"
        + (", hot" if one["is_hot"] else "")
        for one in told
    )


TAKEN_FOR = {
    "measured": ", as measured while no neighbour degraded it",
    "flavor": ", as its flavor declares",
    "learned": ": state 4 is assumed, and others lose no more than to most servers of its flavor",
    "unknown": ": state 4 is assumed",
}
"""By where its state is from."""


def what_if_newcomer(told: Told) -> str:
    """What is asked about, as one sentence."""
    source = TAKEN_FOR.get(told["source"], f", {told['source']}")
    return (
        f"Its state is {formatters.state(told['state'])}{source}; its isolation is "
        f"{told['isolation']}."
    )


def by_what_is_lost(told: WhatIfAnswer) -> list[dict[str, Any]]:
    """The hosts of the answer: those that accept it first, then by what the weigher of nova-vp goes
    by; of which nothing is known last."""
    counted = ["resident_ratio"]
    if told.newcomer["isolation"] != "none":
        counted.append("newcomer_ratio")

    def rank(one: Told) -> tuple[bool, float, str]:
        known = [one[name] for name in counted if one[name] is not None]
        return not one["is_accepted"], max(known, default=2.0), one["host"]

    return sorted(told.hosts, key=rank)


def what_if_domains(one: Told) -> str:
    """Where on the host it was predicted."""
    if one["newcomer_ratio"] is None:
        return "-"
    return ",".join(map(str, one["domains"])) or "all"


def what_if_resource(one: Told) -> str:
    """By which most is lost, if anything is."""
    if not (one["newcomer_ratio"] or one["resident_ratio"]):
        return "-"
    return one["resource"] or "-"


def cells(told: Iterable[Told]) -> str:
    return formatters.lines(
        f"NUMA node {cell['id']}, LLC domain {domain['id']}: CPUs {domain['cpus']}, "
        f"{domain['free_cores']:.3g} cores free, {domain['vcpus']:.3g} vCPUs, "
        f"{formatters.number(domain['misses_per_s'])} misses/s{_permits(domain)}{_newcomer(domain)}"
        f"{_residents(domain)}"
        for cell in told
        for domain in cell["domains"]
    )


def islands(told: Iterable[Told]) -> str:
    return formatters.lines(
        f"{one['name']} ({one['kind']}): CPUs {one['cpus']}{_lent(one)}{_memory(one)}{_cap(one)}"
        f"{_residents(one)}" + (f"; {one['problem']}" if one["problem"] else "")
        for one in told
    )


def _lent(one: Told) -> str:
    if one["cpus"] == one["own_cpus"]:
        return ""
    borrowed = "".join(
        f", CPU {loan['cpu']} of {loan['lender']} for {loan['overlay_id'] or 'the cap of the host'}"
        for loan in one.get("borrowed") or ()
    )
    return f", own {one['own_cpus']}{borrowed}"


def _memory(one: Told) -> str:
    nodes = one.get("nodes")
    return f", memory of NUMA node {', '.join(map(str, nodes))}" if nodes else ""


def _cap(one: Told) -> str:
    cap = one["cap_cpus"]
    return "" if cap is None else f", {formatters.number(cap)} CPUs at most"


def overlays(told: Iterable[Told]) -> str:
    return formatters.lines(
        f"{one['id']}: {one['borrowed_cpus']} CPUs borrowed, "
        f"{formatters.percent(one['credit_ratio'])} credit, {one['granted']} calls granted, "
        f"{one['refused']} refused{_boosted(one)}"
        for one in told
    )


def _boosted(one: Told) -> str:
    names = ", ".join(map(formatters.name, one["boosted"]))
    return f", boosted: {names}" if names else ""


def _permits(domain: Told) -> str:
    """Empty: none is booked, and any number may be."""
    permits = domain.get("llc_permits", {"booked": 0, "free": None})
    if not permits["booked"] and permits["free"] is None:
        return ""
    free = "" if permits["free"] is None else f", {formatters.number(permits['free'])} free"
    return f", permits for {formatters.number(permits['booked'])} misses/ms booked{free}"


def _newcomer(domain: Told) -> str:
    """Of one whose class is not known."""
    losses = domain.get("newcomer_losses") or {}
    worst = {resource: by_class[-1] for resource, by_class in losses.items()}
    told = ", ".join(
        f"{resource} {formatters.percent(ratio)}" for resource, ratio in worst.items() if ratio
    )
    return f", a newcomer costs at most {told}" if told else ""


def _residents(domain: Told) -> str:
    names = ", ".join(map(formatters.name, domain.get("servers", ())))
    return f": {names}" if names else ""


def vps_of_host(told: Iterable[Told]) -> str:
    return formatters.lines(
        f"{formatters.server(vp)}: {formatters.state(vp['state'])}{_why_unknown(vp)}, "
        f"domain {formatters.words(vp['domains'])}"
        + "".join(f", {one}" for one in degradation_formatters.on_host(vp))
        for vp in told
    )


def _why_unknown(vp: Told) -> str:
    return f" ({vp['incomplete']})" if vp["incomplete"] else ""
