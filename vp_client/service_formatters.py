# SPDX-License-Identifier: Apache-2.0
"""What a server is for and how its application answers, in words."""

from collections.abc import Iterable, Mapping
from typing import Any

from vp_client.formatters import lines, number

Told = Mapping[str, Any]


def service(told: Told | None) -> str:
    """The class, the target, the last report, and what became of the reports, one a line."""
    if told is None:
        return "none"
    if told["class"] == "best-effort":
        floor = "may be suspended" if told["may_suspend"] else "keeps its CPU floor"
        return f"best-effort: {floor}"
    return lines([f"{told['class']}: {_target(told)}", *_reports(told)])


def _target(told: Told) -> str:
    target, most = told["latency_target_ms"], told["max_load"]
    percentile = f"{told['latency_percentile']:g} % of its requests"
    within = "no latency target" if target is None else f"{percentile} within {target:g} ms"
    return within + ("" if most is None else f", load up to {number(most)}")


def _reports(told: Told) -> Iterable[str]:
    last = told["reported"]
    if last is None:
        yield "no report is in use"
    else:
        load = "" if last["load"] is None else f", load {number(last['load'])}"
        yield f"last report: {last['latency_ms']:g} ms{load} at {last['at']}"
    yield f"reports: {_counts(told)}"


def _counts(told: Told) -> str:
    reasons = ", ".join(f"{why} {count}" for why, count in sorted(told["ignored"].items()))
    ignored = sum(told["ignored"].values())
    return f"{told['used']} used, {ignored} ignored" + (f" ({reasons})" if reasons else "")


def listed_service(vp: Told) -> str:
    """Of a latency-critical server the last latency and the target, in ms."""
    told = vp.get("service")
    if told is None:
        return "-"
    if told["class"] == "best-effort":
        return "best-effort"
    measured, target = (_short(told[key]) for key in ("latency_ms", "latency_target_ms"))
    return f"{measured}/{target}"


def _short(latency_ms: float | None) -> str:
    return "?" if latency_ms is None else f"{latency_ms:g}"


def latency_projects(told: Iterable[Told]) -> str:
    """Of a host."""
    return lines(
        f"project {one['project_id']}: {_counts(one)}, of {one['servers']} servers" for one in told
    )
