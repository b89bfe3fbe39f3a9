# SPDX-License-Identifier: Apache-2.0
"""The file of a calibration: kept whole, read back, read from the release before, overridden."""

import json
import logging

import pytest
from oslo_config import cfg

from nova_vp import conf as options
from nova_vp.core.types.topology import Limits, LoadCurve, LoadPoint
from vp_agent import wiring
from vp_agent.calibration.record import Calibration
from vp_agent.checks import prerequisites
from vp_agent.checks.finding import Level
from vp_agent.drivers.numa_nodes import with_cpus_and_memory
from vp_agent.loop.state import StateFolder


@pytest.fixture
def conf():
    fresh = cfg.ConfigOpts()
    options.register_all(fresh)
    fresh([], default_config_files=[])
    return fresh


def test_what_was_found_is_read_at_the_next_start_and_options_win(tmp_path, conf):
    state = StateFolder(str(tmp_path))
    assert wiring.limits(conf, state) == Limits()
    state.set_calibration(Calibration(Limits(3.5e6, None, 1.7), 1e9, "measured"))
    assert wiring.limits(conf, StateFolder(str(tmp_path))) == Limits(3.5e6, None, 1.7)
    conf.set_override("node_limit_misses_per_s", 1e6, group="agent")
    conf.set_override("link_limit_misses_per_s", 2e6, group="agent")
    conf.set_override("remote_penalty_ratio", 2.0, group="agent")
    assert wiring.limits(conf, state) == Limits(1e6, 2e6, 2.0)
    conf.set_override("remote_penalty_ratio", 0.5, group="agent")
    with pytest.raises(cfg.Error, match="give 1 or more"):
        wiring.limits(conf, state)


POINTS = (LoadPoint(0.0, 90.0), LoadPoint(1e6, 95.5), LoadPoint(2e6, 240.0))
CURVES = (LoadCurve(0, 0, 0.0, POINTS), LoadCurve(0, 1, 0.5, POINTS))


def test_curves_and_how_write_backs_were_counted_are_kept(tmp_path):
    found = Calibration(Limits(1e6, 5e5, 1.5, CURVES), 1e9, "measured", "uncore", ("a note",))
    StateFolder(str(tmp_path)).set_calibration(found)
    assert StateFolder(str(tmp_path)).calibration() == found


def test_the_curves_reach_the_agent_whatever_options_say(tmp_path, conf):
    state = StateFolder(str(tmp_path))
    state.set_calibration(Calibration(Limits(1e6, 5e5, 1.5, CURVES), 1e9, "measured"))
    conf.set_override("node_limit_misses_per_s", 3e6, group="agent")
    assert wiring.limits(conf, state) == Limits(3e6, 5e5, 1.5, CURVES)


def test_a_file_of_the_release_before_is_read_and_told(tmp_path, caplog):
    (tmp_path / "limits.json").write_text(json.dumps(GOOD))
    with caplog.at_level(logging.WARNING):
        found = StateFolder(str(tmp_path)).calibration()
    assert found == Calibration(Limits(1e6, None, 1.4), 1.0, "measured")
    assert found.is_of_earlier_release
    assert "was measured by an earlier release, without latency curves" in caplog.text
    assert "vp-agent calibrate` again" in caplog.text


def test_the_check_names_what_is_missing_or_old(tmp_path, conf):
    def told():
        [finding] = prerequisites.calibration(conf, lambda: (0, 1))
        return finding.level, finding.told

    conf.set_override("state_directory", str(tmp_path), group="agent")
    level, text = told()
    assert (level, text.partition(":")[0]) == (Level.WARNING, "memory limits are unknown")
    (tmp_path / "limits.json").write_text(json.dumps(GOOD))
    level, text = told()
    assert (level, text.partition(",")[0]) == (
        Level.WARNING,
        "the memory limits were measured by an earlier release",
    )
    (tmp_path / "limits.json").write_text(json.dumps(GOOD | {"curves": [CURVE]}))
    assert told() == (Level.OK, "the memory limits are known")
    (tmp_path / "limits.json").write_text("soup")
    assert told() == (Level.WARNING, "the stored calibration cannot be read, and is not used")


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ((0, 1), "the memory limits are known"),
        (
            (0, 2),
            "the calibration has curves of nodes 0, 1, and this host has CPUs and memory on nodes "
            "0, 2",
        ),
        ((), "the memory limits are known"),
    ],
)
def test_the_check_names_a_calibration_of_other_nodes(tmp_path, conf, nodes, told):
    conf.set_override("state_directory", str(tmp_path), group="agent")
    (tmp_path / "limits.json").write_text(json.dumps(GOOD | {"curves": [CURVE]}))
    [finding] = prerequisites.calibration(conf, lambda: nodes)
    assert finding.told == told
    assert finding.level == (Level.WARNING if nodes == (0, 2) else Level.OK)


def test_nodes_to_calibrate_have_cpus_and_memory(tmp_path):
    assert with_cpus_and_memory(tmp_path) == ()
    (tmp_path / "has_cpu").write_text("0-1\n")
    (tmp_path / "has_memory").write_text("0,2\n")
    assert with_cpus_and_memory(tmp_path) == (0,)


def test_values_of_a_model_have_no_curves_in_any_release(tmp_path, caplog):
    (tmp_path / "limits.json").write_text(json.dumps(GOOD | {"how": "vpmu"}))
    assert not StateFolder(str(tmp_path)).calibration().is_of_earlier_release
    assert caplog.text == ""


GOOD = {
    "node_misses_per_s": 1e6,
    "link_misses_per_s": None,
    "remote_penalty_ratio": 1.4,
    "at": 1.0,
    "how": "measured",
}


CURVE = {
    "cpu_node": 0,
    "memory_node": 1,
    "writeback_ratio": 0.5,
    "points": [{"lines_per_s": 0, "latency_ns": 90}, {"lines_per_s": 5, "latency_ns": 95}],
}
ODD_CURVES = (
    7,
    [7],
    [{}],
    [CURVE | {"cpu_node": "soup"}],
    [CURVE | {"writeback_ratio": -1}],
    [CURVE | {"points": []}],
    [CURVE | {"points": CURVE["points"][::-1]}],
    [CURVE | {"points": [{"lines_per_s": 0, "latency_ns": float("nan")}] * 2}],
)


def test_a_good_curve_is_read(tmp_path):
    (tmp_path / "limits.json").write_text(json.dumps(GOOD | {"curves": [CURVE]}))
    assert StateFolder(str(tmp_path)).calibration().limits.curves[0].memory_node == 1


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "soup",
        "[" * 100_000,
        *(json.dumps(GOOD | {name: value}) for name in list(GOOD)[:3] for value in (0, -1, "soup")),
        json.dumps(GOOD | {"node_misses_per_s": float("inf")}),
        json.dumps({}),
        *(json.dumps(GOOD | {"curves": odd}) for odd in ODD_CURVES),
    ],
)
def test_an_odd_file_is_no_calibration(tmp_path, text):
    (tmp_path / "limits.json").write_text(text)
    assert StateFolder(str(tmp_path)).calibration() is None
