# SPDX-License-Identifier: Apache-2.0
"""Each shipped alert fires when it should, by Prometheus' own engine, and its runbook exists."""

import copy
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.promql import RULES, alerts, queries
from tests.promtool import check_rules, run_rule_tests
from tests.unit.ops.alert_cases import CASES, AlertCase, Series

DOC = Path(__file__).parents[3] / "doc/source"
LAST_M = 45
"""A quiet alert is quiet up to here."""


def test_promtool_takes_the_rules_as_they_are_shipped(tmp_path: Path) -> None:
    status, told = check_rules(tmp_path, RULES)
    assert status == 0, told


def test_prometheus_parses_every_query(tmp_path: Path) -> None:
    """Those of dashboards as recording rules, since promtool parses no query by itself."""
    rules = [{"record": f"q{n}", "expr": text} for n, (_, text) in enumerate(sorted(queries()))]
    status, told = check_rules(tmp_path, {"groups": [{"name": "queries", "rules": rules}]})
    assert status == 0, told
    assert f"{len(rules)} rules found" in told


def test_each_alert_has_a_section_of_the_documentation() -> None:
    headings = re.findall(r"^### (.+)$", (DOC / "alerts.md").read_text(), re.M)
    anchors = {heading.lower(): heading for heading in headings}
    for rule in alerts():
        page, _, anchor = rule["annotations"]["runbook_url"].rpartition("#")
        assert page == "https://nova-vp.example.org/alerts.html"
        assert anchors[anchor] == rule["alert"]
    assert len(headings) == len(alerts()), "a section of an alert that is no more"


def test_each_alert_has_a_case_with_its_span() -> None:
    spans = {rule["alert"]: int(rule.get("for", "0m").removesuffix("m")) for rule in alerts()}
    assert {case.alert: case.for_m for case in CASES} == spans


def expected(case: AlertCase, at_m: int, labels: tuple[str, ...]) -> dict[str, Any]:
    """What fires of it in that minute."""
    severity = next(rule for rule in alerts() if rule["alert"] == case.alert)["labels"]["severity"]
    same = f'alertname="{case.alert}", alertstate="firing", severity="{severity}"'
    return {
        "expr": f'ALERTS{{alertname="{case.alert}", alertstate="firing"}}',
        "eval_time": f"{at_m}m",
        "exp_samples": [
            {"labels": f"ALERTS{{{', '.join(filter(None, (same, one)))}}}", "value": 1}
            for one in labels
        ],
    }


def group(series: Iterable[Series], tests: Iterable[dict[str, Any]]) -> dict[str, Any]:
    merged = {name: values for one in series for name, values in one.items()}
    return {
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in merged.items()],
        "promql_expr_test": list(tests),
    }


def fire_tests() -> Iterator[dict[str, Any]]:
    for case in CASES:
        fires_m = case.begin_m + case.for_m
        if fires_m:
            yield expected(case, fires_m - 1, ())
        yield expected(case, fires_m, case.labels)


def groups() -> list[dict[str, Any]]:
    """Two, since promtool makes a database for each."""
    quiet = (expected(case, at_m, ()) for case in CASES for at_m in (case.for_m + 11, LAST_M))
    return [
        group((case.fires for case in CASES), fire_tests()),
        group((case.quiet for case in CASES), quiet),
    ]


def test_each_alert_fires_when_it_should(tmp_path: Path) -> None:
    status, told = run_rule_tests(tmp_path, RULES, groups())
    assert status == 0, told


def never(rule: dict[str, Any]) -> None:
    rule["expr"] = f"({rule['expr']}) and on () (vector(0) > 1)"


def the_other_way_round(rule: dict[str, Any]) -> None:
    other = {">": "<", "==": "!="}
    rule["expr"] = re.sub(r" (>|==) ", lambda found: f" {other[found[1]]} ", rule["expr"])


def at_once(rule: dict[str, Any]) -> None:
    rule.pop("for", None)


def much_later(rule: dict[str, Any]) -> None:
    rule["for"] = "40m"


@pytest.mark.parametrize("breaks", [never, the_other_way_round, at_once, much_later])
def test_an_alert_that_is_broken_fails_its_case(
    tmp_path: Path, breaks: Callable[[dict[str, Any]], None]
) -> None:
    broken = copy.deepcopy(RULES)
    rules = [rule for one in broken["groups"] for rule in one["rules"]]
    changed = set()
    for rule in rules:
        before = dict(rule)
        breaks(rule)
        if rule != before:
            changed.add(rule["alert"])
    _, told = run_rule_tests(tmp_path, broken, groups())
    failed = set(re.findall(r'expr: "ALERTS\{alertname=\\?"(\w+)', told))
    assert failed == changed
