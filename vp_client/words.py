# SPDX-License-Identifier: Apache-2.0
"""Answers of the API in readable lines for tables: pure functions from values to text.

Machine formats never pass through here. What both views have is told the same way.
"""

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

Told = Mapping[str, Any]

LINE_WIDTH = 74
"""What is left of 100 characters beside the longest key and a table's borders."""
UNKNOWN = "unknown"


def wrap(text: str, width: int = LINE_WIDTH) -> str:
    """Continued lines are indented: several items may follow each other. Ids stay whole."""
    pieces = textwrap.wrap(text, width, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(pieces)


def lines(texts: Iterable[str]) -> str:
    return "\n".join(wrap(text) for text in texts) or "none"


def yes_no(value: bool | None) -> str:
    return UNKNOWN if value is None else "yes" if value else "no"


def or_unknown(value: str | None) -> str:
    return value or UNKNOWN


def or_no(value: str | None) -> str:
    return value or "no"


def state(told: Told | None) -> str:
    return UNKNOWN if told is None else f"{told['number']} {told['name']}"


def age(seconds: int) -> str:
    if seconds < 120:
        return f"{seconds} s"
    if seconds < 7200:
        return f"{seconds // 60} min"
    return f"{seconds // 3600} h"


def percent(ratio: float) -> str:
    return f"{100 * ratio:.3g}%"


def number(value: float) -> str:
    """Three digits and a letter, so that rates stay readable."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g} {letter}"
    return f"{value:.3g}"


def numbers(values: Told | None) -> str:
    if not values:
        return "none"
    return wrap(", ".join(f"{name} {number(value)}" for name, value in values.items()))


def unmanaged(told: Told | None) -> str:
    if told is None:
        return "no"
    detail = f": {told['detail']}" if told["detail"] else ""
    return wrap(f"yes, {told['reason']}{detail}")


def words(values: Iterable[Any]) -> str:
    return ", ".join(str(value) for value in values) or "none"


def server(told: Told) -> str:
    """The name with the id, or the id alone for one that left."""
    return f"{told['name']} ({told['server_id']})" if told["name"] else str(told["server_id"])


def name(told: Told) -> str:
    return str(told["name"] or told["server_id"])


def interference(told: Told | None) -> str:
    if told is None:
        return "none"
    suspects = [
        f"suspect {server(suspect)}: +{number(suspect['rise_per_s'])} misses/s"
        for suspect in told["suspects"]
    ]
    refused = [f"not done: {_rejected(one)}" for one in told["refused"]]
    return lines([f"{told['kind']}, since {told['since']}", *suspects, *refused])


def counters(told: Told) -> str:
    return lines([told["source"], *(f"problem: {problem}" for problem in told["problems"])])


def last_known(told: Told | None) -> str:
    if told is None:
        return "as above"
    hurt = yes_no(told["hurt_by_neighbour"])
    return wrap(
        f"at {told['at']}: state {state(told['state'])} since {told['since']}, "
        f"hurt by a neighbour: {hurt}"
    )


def actions(told: Iterable[Told]) -> str:
    return lines(_tenants(action) if "what" in action else _operators(action) for action in told)


def proposals(told: Iterable[Told]) -> str:
    return lines(f"{action['id']}: {_operators(action)}" for action in told)


def _tenants(action: Told) -> str:
    return f"{action['at']} {action['what']} ({action['result']})"


def _operators(action: Told) -> str:
    """When, what came of it, what was moved, why, by which numbers, and what was not done."""
    parts = [
        f"{action['at']} {action['result']}: {server(action['server'])}, CPUs "
        f"{action['from_cpus']} -> {action['to_cpus']}",
        f"reason {action['reason']}" + _beneficiary(action),
        f"predicted hurt {percent(action['hurt_ratio'])}",
    ]
    if action["detail"]:
        parts.append(action["detail"])
    if action["evidence"]:
        parts.append(f"evidence {numbers(action['evidence'])}")
    if action["rejected"]:
        parts.append("not chosen: " + ", ".join(_rejected(one) for one in action["rejected"]))
    return "; ".join(parts)


def _beneficiary(action: Told) -> str:
    victim = action["victim"]
    if victim is None or victim["server_id"] == action["server"]["server_id"]:
        return ""
    return f" for {name(victim)}"


def _rejected(one: Told) -> str:
    hurt = "" if one["hurt_ratio"] is None else f" {percent(one['hurt_ratio'])}"
    return f"{name(one['server'])} to domain {one['domain']} ({one['why']}{hurt})"


def cells(told: Iterable[Told]) -> str:
    return lines(
        f"cell {cell['id']}, domain {domain['id']}: CPUs {domain['cpus']}, "
        f"{domain['free_cores']:.3g} cores free, {domain['vcpus']:.3g} vCPUs, "
        f"{number(domain['misses_per_s'])} misses/s"
        for cell in told
        for domain in cell["domains"]
    )


def vps_of_host(told: Iterable[Told]) -> str:
    return lines(
        f"{server(vp)}: {state(vp['state'])}{_why_unknown(vp)}, domain {words(vp['domains'])}"
        + (", hurt by a neighbour" if vp["hurt_by_neighbour"] else "")
        for vp in told
    )


def _why_unknown(vp: Told) -> str:
    return f" ({vp['incomplete']})" if vp["incomplete"] else ""
