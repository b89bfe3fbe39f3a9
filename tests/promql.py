# SPDX-License-Identifier: Apache-2.0
"""The queries of the shipped alert rules and dashboard, parsed as Prometheus would."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import yaml

ETC = Path(__file__).parents[1] / "etc/nova-vp"
RULES = yaml.safe_load((ETC / "prometheus/nova-vp-rules.yaml").read_text())
DASHBOARD = json.loads((ETC / "grafana/nova-vp.json").read_text())


def alerts() -> list[dict[str, Any]]:
    return [rule for group in RULES["groups"] for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def with_values(expression: str) -> str:
    """As Grafana sends it, with All chosen."""
    told = expression.replace("$__rate_interval", "5m")
    return re.sub(r"\$(fqdn|resource)\b", ".*", told)


def queries() -> Iterator[tuple[str, str]]:
    for rule in alerts():
        yield rule["alert"], rule["expr"]
    for panel in panels():
        for target in panel["targets"]:
            yield f"panel {panel['title']}", with_values(target["expr"])
    for note in DASHBOARD["annotations"]["list"]:
        yield f"annotation {note['name']}", with_values(note["expr"])


def parts(node: Any) -> Iterator[Any]:
    """An expression and all in it."""
    yield node
    for name in ("lhs", "rhs", "expr", "param", "vector_selector"):
        inner = getattr(node, name, None)
        if inner is not None and not isinstance(inner, str | float):
            yield from parts(inner)
    for inner in getattr(node, "args", None) or ():
        yield from parts(inner)


def selectors(node: Any) -> Iterator[Any]:
    return (part for part in parts(node) if isinstance(part, promql_parser.VectorSelector))
