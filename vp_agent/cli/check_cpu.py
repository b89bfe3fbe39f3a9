# SPDX-License-Identifier: Apache-2.0
"""`vp-agent check --cpu FILE`: what the counter source `perf` would count on another CPU.

The file is a /proc/cpuinfo, or identification registers; nothing of this host is looked at.
"""

import json
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vp_agent.drivers.cpu_model import UnknownCpu, parse_cpu
from vp_agent.drivers.hardware_events import CpuEvents, Event, NoEvents, events_of

KNOWN, REFUSED = 0, 2
_WIDTH = 100
_PERF_TYPES = {0: "hardware", 4: "raw"}
_NOT_COUNTED = "not counted on this CPU"
_ON_TRIAL = (
    "the agent first tries whether these events count the last-level cache on the host "
    "(CPUECTLR_EL1.EXTLLC), and refuses them otherwise"
)


def run(path: Path, *, as_json: bool) -> int:
    """Raises OSError."""
    told = _told(path)
    print(json.dumps(told, indent=2) if as_json else "\n".join(_lines(told)))
    return REFUSED if told["refused"] else KNOWN


def _told(path: Path) -> dict[str, Any]:
    name = ""
    try:
        cpu = parse_cpu(path.read_text(encoding="utf-8", errors="replace"))
        name = str(cpu)
        events = events_of(cpu)
    except (UnknownCpu, NoEvents) as exc:
        return {"cpu": name, "refused": str(exc)}
    return {"cpu": name, "refused": ""} | _of_events(events)


def _of_events(events: CpuEvents) -> dict[str, Any]:
    metrics = {name: _encoding(event) for name, event in events.metrics.items()}
    return {
        "events_of": events.name,
        "source": events.source,
        "metrics": metrics,
        "counted": [event.name for event in events.group],
        "libvirt_counts_llc": events.generic_is_llc,
        "condition": _ON_TRIAL if events.l2_reads else "",
    }


def _encoding(event: Event | None) -> dict[str, Any] | None:
    if event is None:
        return None
    shown: dict[str, Any] = {
        "event": event.name,
        "perf_type": _PERF_TYPES[event.type],
        "config": f"{event.config:#x}",
    }
    if event.type:
        shown |= {"select": f"{event.config & 0xFF:#04x}", "umask": f"{event.config >> 8:#04x}"}
    return shown | {"meaning": event.meaning}


def _lines(told: dict[str, Any]) -> Iterator[str]:
    if told["refused"]:
        yield _wrapped("refused: ", told["refused"])
        return
    yield f"{told['cpu']}: {told['events_of']}"
    for metric, event in told["metrics"].items():
        start = f"{metric:<18} "
        if event is None:
            yield start + _NOT_COUNTED
            continue
        is_shown_only = event["event"] not in told["counted"]
        kept = " (documented; the agent does not count it)" if is_shown_only else ""
        yield f"{start}{event['event']} {event['perf_type']} {event['config']}{kept}"
        yield _wrapped(" " * len(start), event["meaning"])
    yield _wrapped("source: ", told["source"])
    if told["condition"]:
        yield _wrapped("condition: ", told["condition"])


def _wrapped(start: str, text: str) -> str:
    return textwrap.fill(
        text, _WIDTH, initial_indent=start, subsequent_indent=" " * len(start),
        break_on_hyphens=False, break_long_words=False,
    )  # fmt: skip
