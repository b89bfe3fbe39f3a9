# SPDX-License-Identifier: Apache-2.0
"""The shipped alert rules and dashboard ask for what the processes export, and for nothing else."""

import copy
import json
import re
from collections import defaultdict
from pathlib import Path

import promql_parser
import pytest

from nova_vp.core.types.action import Outcome, Result
from nova_vp.core.types.cpu_time import CpuUse
from nova_vp.core.types.usage import Usage
from tests.decisions import a_decision, a_detection, a_node, a_view, an_action, facts, uuid_of
from tests.grafana_schema import faults
from tests.promql import DASHBOARD, alerts, parts, queries, selectors
from tests.unit.ops import test_agent_metrics as agent
from tests.unit.ops import test_api_metrics as api
from tests.unit.ops import test_scheduler_metrics as scheduler
from vp_agent.publish.metrics import Tally
from vp_agent.publish.usage_series import SERIES
from vp_scheduler.ingest.stats_poller import StatsPoller

GUIDE = (Path(__file__).parents[3] / "doc/source/monitoring.md").read_text()
OF_PROMETHEUS = {"up": {"job": set(), "instance": set()}}
ADDED_BY_SCRAPES = {"job", "instance"}
FREE = {"job", "instance", "status"}
"""Labels whose values come from elsewhere, or are as many as there are answers."""
CARDS = ("row", "stat", "timeseries", "state-timeline", "status-history")

Exported = dict[str, dict[str, set[str]]]
"""Values of each label, by metric."""


@pytest.fixture(scope="module")
def exported() -> Exported:
    settled = Outcome(an_action("a1", guest_uuid=uuid_of(1)), Result.MENDED, 10.0)
    useless = Outcome(an_action("a2", guest_uuid=uuid_of(1)), Result.INEFFECTIVE, 10.0)
    about = {"history": (settled, useless), "cpu_use": CpuUse(9.0, 1), "usage": (Usage("plain"),)}
    view = a_view(1, detection=a_detection(), **about)
    decision = a_decision(
        view,
        agent.a_latency_critical_view(),
        nodes=(a_node(limit_misses_per_s=2e6),),
        steal_ratio=0.0,
    )
    tally, lookout = Tally(), StatsPoller(scheduler.Books())
    tally.decided(decision, ())
    tally.ticked(0.1, is_done=True)
    lookout.look()
    found: Exported = defaultdict(lambda: defaultdict(set))
    none = agent.shown(host_info=lambda: facts(counters="none"))
    told = agent.shown(decision, tally, sent_at_s=lambda: 1.0, host_info=lambda: agent.REPORTED)
    asked = api.counted(("GET", "/v1/vps"))
    for registry in (told, none, scheduler.shown(lookout), asked):
        for metric in registry.collect():
            for sample in metric.samples:
                for label, value in sample.labels.items() or [("", "")]:
                    found[sample.name][label].add(value)
    return found | OF_PROMETHEUS


@pytest.mark.parametrize(("where", "text"), sorted(queries()))
def test_a_query_asks_for_what_is_exported(exported: Exported, where: str, text: str) -> None:
    tree = promql_parser.parse(text)
    found = list(selectors(tree))
    assert found
    for selector in found:
        assert selector.name in exported, where
        labels = exported[selector.name]
        for matcher in selector.matchers.matchers:
            assert matcher.name in labels.keys() | ADDED_BY_SCRAPES, (where, matcher.name)
            if matcher.name in labels.keys() - FREE and matcher.value != ".*":
                values = labels[matcher.name]
                wanted = matcher.value.split("|")
                assert set(wanted) <= values, (where, wanted, values)


@pytest.mark.parametrize(("where", "text"), sorted(queries()))
def test_a_query_groups_by_labels_that_are_there(exported: Exported, where: str, text: str) -> None:
    for part in parts(promql_parser.parse(text)):
        modifier = getattr(part, "modifier", None)
        if isinstance(part, promql_parser.AggregateExpr) and modifier is not None:
            known = set(ADDED_BY_SCRAPES)
            for selector in selectors(part):
                known |= exported[selector.name].keys()
            assert set(modifier.labels) <= known, where


def test_every_alert_says_what_it_means_and_what_to_do() -> None:
    assert len({rule["alert"] for rule in alerts()}) == len(alerts())
    for rule in alerts():
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert set(rule["annotations"]) == {"summary", "mend", "runbook_url"}
        assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}


def test_what_an_alert_quotes_survives_its_expression(exported: Exported) -> None:
    """A label that an aggregation drops is an empty word in the summary."""
    for rule in alerts():
        quoted = set(re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])))
        tree = promql_parser.parse(rule["expr"])
        kept: set[str] = set()
        aggregates = [p for p in parts(tree) if isinstance(p, promql_parser.AggregateExpr)]
        if aggregates:
            kept = set(aggregates[0].modifier.labels) if aggregates[0].modifier else set()
        else:
            for selector in selectors(tree):
                kept |= exported[selector.name].keys() | ADDED_BY_SCRAPES
        assert quoted <= kept, rule["alert"]


def test_the_dashboard_is_one_that_grafana_takes() -> None:
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        assert panel["type"] in CARDS
        at = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert at["x"] + at["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    assert faults(DASHBOARD) == []
    names = {one["name"] for one in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD["panels"])))
    assert used - {"__rate_interval"} <= names


def test_the_dashboard_shows_what_changed_when() -> None:
    """Of each server and each LLC domain, with a mark where something was done."""
    shown = {
        (panel["type"], target["expr"].partition("{")[0])
        for panel in DASHBOARD["panels"]
        for target in panel.get("targets", ())
    }
    assert ("state-timeline", "nova_vp_server_state") in shown
    assert ("status-history", "nova_vp_llc_domain_servers_hurt") in shown
    marked = {note["name"]: note["expr"] for note in DASHBOARD["annotations"]["list"]}
    assert "nova_vp_actions_total{" in marked["Actions"]


def test_what_grafana_does_not_know_is_seen() -> None:
    odd = copy.deepcopy(DASHBOARD)
    timeline = next(panel for panel in odd["panels"] if panel["type"] == "state-timeline")
    timeline["options"]["rowColour"] = "red"
    timeline["options"]["showValue"] = "sometimes"
    where = [one.rpartition(".")[2] for one in faults(odd)]
    assert where == ["rowColour", "show_value: 'sometimes'"]


def test_what_is_exported_of_servers_is_shown_or_known_to_be_left_out(exported: Exported) -> None:
    """So that a new series comes with a panel, or with a decision."""
    left_out = {
        "nova_vp_server_counters_running_ratio", "nova_vp_server_instructions_per_second",
        "nova_vp_server_l2_misses_per_kilo_instructions", "nova_vp_server_llc_misses_per_second",
        "nova_vp_server_managed", "nova_vp_server_remote_misses_ratio",
        "nova_vp_server_figure", "nova_vp_server_figure_word", "nova_vp_server_latency_seconds",
        "nova_vp_server_latency_target_seconds", "nova_vp_server_load",
        "nova_vp_server_latency_report_age_seconds", "nova_vp_server_latency_reports_total",
    }  # fmt: skip
    shown = {s.name for _, text in queries() for s in selectors(promql_parser.parse(text))}
    billed = {f"nova_vp_server_{name}_total" for name in SERIES}
    of_servers = {name for name in exported if name.startswith("nova_vp_server_")}
    assert of_servers - shown == left_out | billed


def test_every_metric_and_what_it_carries_stands_in_the_guide(exported: Exported) -> None:
    rows = re.findall(r"^\| (`nova_vp_[^|]*`) \| ([^|]*)\|", GUIDE, re.M)
    told = {
        name: set(re.findall(r"`(\w+)`", labels))
        for names, labels in rows
        for name in re.findall(r"`(\w+)`", names)
    }
    found: dict[str, set[str]] = defaultdict(set)
    for name, labels in exported.items():
        if name.startswith("nova_vp_"):
            base = re.sub("_(bucket|count|sum)$", "", name)
            found[base] |= labels.keys() - {"fqdn", "le", ""}
    assert found.keys() == told.keys()
    for name in found:
        assert found[name] <= told[name], name
