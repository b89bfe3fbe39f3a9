# SPDX-License-Identifier: Apache-2.0
"""Answers of the API as text for tables: pure functions from values to text.

Machine-readable formats do not use this module. Operators and tenants read the same texts. Texts of
escalations are in `escalation_formatters.py`, those of hosts in `host_formatters.py`.
"""

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

from nova_vp.action_results import PROPOSED
from nova_vp.cli import labels
from nova_vp.cli.labels import POINTS, small
from nova_vp.cli.labels import cpu_use as wanted_cpu
from nova_vp.cli.labels import figures as labels_of
from nova_vp.core.types.sample import State
from nova_vp.wire.schema_types import LEVELS

Told = Mapping[str, Any]

LINE_WIDTH = 74
"""What is left of 100 characters beside the longest key and a table's borders."""
UNKNOWN = "unknown"


def wrap(text: str, width: int = LINE_WIDTH) -> str:
    """Continued lines are indented: several items may follow each other. Ids stay whole."""
    pieces = textwrap.wrap(text, width, subsequent_indent="  ", break_on_hyphens=False)
    return "\n".join(pieces)


def fitted(text: str) -> str:
    """Lines that are not too long stay as they are."""
    return "\n".join(line if len(line) <= LINE_WIDTH else wrap(line) for line in text.split("\n"))


def wrap_code(code: str, width: int) -> str:
    """A code is words with hyphens between them."""
    return "\n".join(textwrap.wrap(code, width))


def lines(texts: Iterable[str]) -> str:
    return "\n".join(wrap(text) for text in texts) or "none"


def mode_source(told: Told | None) -> str:
    """Agents of earlier releases do not say."""
    return UNKNOWN if told is None else labels.mode_source(told["level"], told["name"])


def short_mode_source(told: Told | None) -> str:
    """For a column."""
    return UNKNOWN if told is None else told["name"] or told["level"]


def mode_levels(told: Iterable[Told]) -> str:
    return lines(f"{one['mode']}: {labels.mode_source(one['level'], one['name'])}" for one in told)


def effective_mode(told: Told) -> str:
    return f"{told['mode']} ({mode_source(told['source'])})"


def yes_no(value: bool | None) -> str:
    return UNKNOWN if value is None else "yes" if value else "no"


def short_yes_no(value: bool | None) -> str:
    """For narrow columns."""
    return "?" if value is None else yes_no(value)


def or_unknown(value: Any) -> str:
    return UNKNOWN if value is None or value == "" else str(value)


def or_no(value: str | None) -> str:
    return value or "no"


def state(told: Told | None) -> str:
    return UNKNOWN if told is None else f"{told['number']} {told['name']}"


def group_state(told: Told | None) -> str:
    """Of the VP of several servers that it is part of."""
    if told is None:
        return "none"
    servers = [f"server {server(one)}" for one in told["servers"]]
    measured = f"{told['measured_servers']} of {len(servers)} servers measured"
    rates = [_numbers(told["metrics"])] if told.get("metrics") else []
    return lines([f"{state(told['state'])}, {measured}", *servers, *rates])


def listed_group(told: Told) -> str:
    """For a column: `shop: 8 bulldog`, and how many of its servers are measured unless all are."""
    group, now = told.get("group", ""), told.get("group_state")
    if not now:
        return str(group)
    measured, servers = now["measured_servers"], now["servers_count"]
    part = "" if measured == servers else f" ({measured} of {servers} measured)"
    return f"{group}: {short_state(now['state'])}{part}"


def minute(moment: str) -> str:
    """For narrow columns: `2026-01-02 03:04`, UTC."""
    return moment[:16].replace("T", " ")


def short_state(told: Told | None) -> str:
    """`8 bulldog`: for tables that have its measures beside it."""
    return "-" if told is None else vp_class(told["number"])


def vp_class(number: int) -> str:
    return f"{number} {State.from_number(number).intensity.name.lower()}"


def classes(told: Iterable[Told]) -> str:
    return lines(f"{vp_class(one['vp_class'])}: {one['vps_count']} servers" for one in told)


def point(kind: str) -> str:
    return POINTS.get(kind, kind)


def overrides(told: Told) -> str:
    return wrap(override_words(told)) or "no override"


def override_words(told: Told) -> str:
    """The overrides, and for operators who set them and when; empty: none."""
    parts = [
        *([f"mode {told['mode']} at most"] if told["mode"] else []),
        *(["opted out: nothing is done for its sake"] if told["opt_out"] else []),
        *(["exempt: it is measured, but not changed"] if told["exempt"] else []),
        *([f"priority {told['priority']}"] if told["priority"] is not None else []),
        *(f"{name} {told[name]:g}" for name in LEVELS if told.get(name) is not None),
    ]
    by = f" (by {told['by']} at {told['at']})" if told.get("by") else ""
    return ", ".join(parts) + by if parts else ""


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
    return (labels.with_letter(value) if abs(value) >= 1000 else None) or small(value)


def numbers(values: Told | None) -> str:
    return wrap(_numbers(values)) if values else "none"


def cpu_use(ratios: Told | None) -> str:
    return wrap(wanted_cpu(ratios)) if ratios else UNKNOWN


def figures(told: Told | None) -> str:
    """What controllers tell of a server, one controller a line."""
    by_controller = (told or {}).items()
    return lines(f"{name}: {labels_of(name, one)}" for name, one in by_controller) or "none"


def _numbers(values: Told) -> str:
    return ", ".join(f"{name} {number(value)}" for name, value in values.items())


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


def server_or_none(told: Told | None) -> str:
    return "none" if told is None else server(told)


def name(told: Told) -> str:
    return str(told["name"] or told["server_id"])


def short_name(told: Told) -> str:
    """For a column: of a server without a name the first part of its id, since all of it would take
    the room of the others."""
    return told["name"] or f"{told['server_id'][:8]}…"


def rise(told: Told, suspect: Told) -> str:
    """Of an aggressor, since the degradation began."""
    if told["kind"] == "cpu":
        return f"{small(suspect['rise_per_s'])} CPUs"
    return f"+{number(suspect['rise_per_s'])} misses/s"


def interference(told: Told | None) -> str:
    if told is None:
        return "none"
    suspects = [
        f"aggressor {server(suspect)}: {rise(told, suspect)}" for suspect in told["suspects"]
    ]
    refused = [f"rejected: {_rejected(one)}" for one in told["refused"]]
    return lines([f"{kind(told)}, since {told['since']}", *suspects, *refused])


def kind(told: Told) -> str:
    return f"{told['kind']}: {told['meaning']}"


def last_known(told: Told | None) -> str:
    if told is None:
        return "as above"
    hurt = yes_no(told["hurt_by_neighbour"])
    return wrap(
        f"at {told['at']}: state {state(told['state'])} since {told['since']}, "
        f"degraded by a neighbour: {hurt}"
    )


def actions(told: Iterable[Told]) -> str:
    return lines(_tenants(action) if "what" in action else _operators(action) for action in told)


def proposals(told: Iterable[Told]) -> str:
    return lines(f"{action['id']}: {_operators(action)}" for action in told)


def _tenants(action: Told) -> str:
    return f"{action['at']} {action['what']} ({action['result']})"


KNOBS = {"placement": "CPUs", "cpu-cap": "cap", "cpu-weight": "weight"}
"""The others go by their names."""


def _operators(action: Told) -> str:
    """When, what came of it, what was turned, why, by which numbers, and what was not done."""
    parts = [
        f"{action['at']} {action['result']}: {server(action['server'])}, {_changes(action)}",
        f"reason {action['reason']}{_beneficiary(action)}: {action['meaning']}",
        f"predicted degradation {percent(action['hurt_ratio'])}",
    ]
    if action["detail"]:
        parts.append(action["detail"])
    return "; ".join([*parts, *grounds(action, "rejected")])


def grounds(told: Told, instead: str) -> list[str]:
    evidence, rejected = told["evidence"], told["rejected"]
    return [
        *([f"evidence {_numbers(evidence)}"] if evidence else []),
        *([f"{instead}: {', '.join(map(_rejected, rejected))}"] if rejected else []),
    ]


def rejected(told: Iterable[Told]) -> str:
    return lines(map(_rejected, told))


def changes(told: Iterable[Told]) -> str:
    return lines(f"{name(change['server'])}: {_turned(change)}" for change in told)


def _changes(action: Told) -> str:
    """Agents that only move vCPUs report no changes, and CPUs alone."""
    if not action["changes"]:
        return f"CPUs {action['from_cpus']} -> {action['to_cpus']}"
    return ", ".join(_change(change, action["server"]) for change in action["changes"])


def _change(change: Told, main: Told) -> str:
    other = (
        "" if change["server"]["server_id"] == main["server_id"] else f"{name(change['server'])} "
    )
    return f"{other}{_turned(change)}"


def _turned(change: Told) -> str:
    until = f" until {change['until']}" if change["until"] else ""
    knob = KNOBS.get(change["knob"], change["knob"])
    return f"{knob} {change['from']} -> {change['to']}{until}"


def _beneficiary(action: Told) -> str:
    other = action["victim"] or action["on_behalf_of"]
    if other is None or other["server_id"] == action["server"]["server_id"]:
        return ""
    return f" for {name(other)}"


def deed(action: Told) -> str:
    """What is turned, of whom, and why."""
    return f"{name(action['server'])}: {_changes(action)} ({action['meaning']})"


def refusal(one: Told) -> str:
    return f"{name(one['server'])}, {one['meaning']}"


def _rejected(one: Told) -> str:
    where = "" if one["domain"] is None else f" to domain {one['domain']}"
    hurt = "" if one["hurt_ratio"] is None else f", {percent(one['hurt_ratio'])}"
    return f"{name(one['server'])}{where} ({one['meaning']}{hurt})"


def memory_moves(told: Iterable[Told]) -> str:
    return lines(
        f"{server(move['server'])} to {move['to']}: {_mib(move['moved_kib'])} of "
        f"{_mib(move['moved_kib'] + move['left_kib'])} MiB moved{_ending(move)}"
        for move in told
    )


def _mib(kib: int) -> str:
    return f"{kib / 1024:.0f}"


def _ending(move: Told) -> str:
    if move["problem"]:
        return f", ended early: {move['problem']}"
    return ", done" if move["is_over"] else ""


def action_result(action_id: str, result: str) -> str:
    """With what an operator can do now."""
    if result != PROPOSED:
        return result
    return (
        f"{result}; in mode advise, accept it with\nopenstack vp action accept {action_id}\n"
        f"or reject it with\nopenstack vp action reject {action_id}"
    )


def cap_floor(ratio: float | None) -> str:
    return "never capped" if ratio is None else f"{percent(ratio)} of each vCPU"


def weight(value: float | None) -> str:
    return UNKNOWN if value is None else f"{value:g}"


def or_none(value: str | None) -> str:
    return wrap(value or "") or "none"
