# SPDX-License-Identifier: Apache-2.0
"""The recipe for CloudKitty names counters that agents have, and rates of one period."""

from fractions import Fraction
from pathlib import Path

import yaml

from vp_agent.publish.usage_series import LABELS, SERIES

FILE = Path(__file__).parents[3] / "etc/nova-vp/cloudkitty/metrics.yml"
METRICS = yaml.safe_load(FILE.read_text())["metrics"]
UNITS = {"Gmisses": 10**9, "h": 3600, "core*h": 3600}
PERIOD_S = 3600


def test_each_metric_is_a_counter_of_the_agent() -> None:
    billed = {f"nova_vp_server_{name}_total" for name in SERIES}
    assert METRICS.keys() <= billed
    assert len(METRICS) == 4


def test_each_is_summed_by_server_within_a_project() -> None:
    for metric in METRICS.values():
        assert set(metric["groupby"]) | {"project_id"} == set(LABELS)
        assert metric["extra_args"] == {"aggregation_method": "sum", "range_function": "rate"}


def test_a_rate_times_the_factor_is_the_amount_of_an_hour_in_its_unit() -> None:
    for metric in METRICS.values():
        assert Fraction(metric["factor"]) == Fraction(PERIOD_S, UNITS[metric["unit"]])
