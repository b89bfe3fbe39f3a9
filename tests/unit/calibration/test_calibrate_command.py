# SPDX-License-Identifier: Apache-2.0
"""`vp-agent calibrate`: when it refuses, what it prints, and what it leaves behind."""

import json
import os
import subprocess
import sys
from argparse import ArgumentParser

import pytest

from nova_vp.core.types.topology import Limits, LlcDomain, Topology
from tests.modelled_memory import GB, ModelledMemory
from tests.vpmu_file import make_controller
from vp_agent.calibration.capacity import CannotCalibrate
from vp_agent.calibration.procedure import measured
from vp_agent.calibration.record import MEASURED, Calibration, as_json, from_json
from vp_agent.cli import calibrate
from vp_agent.cli.calibration_plot import plot
from vp_agent.cli.calibration_view import as_table
from vp_agent.drivers.counters import CounterSettings
from vp_agent.drivers.counters_none import NoCounters
from vp_agent.drivers.counters_vpmu import VpmuCounters
from vp_agent.drivers.fake import FakeGuests, FakeHost
from vp_agent.loop.state import StateFolder


def a_calibration(how=MEASURED, **about) -> Calibration:
    topology = Topology(
        (LlcDomain(0, 0, frozenset(range(9))), LlcDomain(1, 1, frozenset(range(9, 18))))
    )
    host = ModelledMemory(topology, {0: 40 * GB, 1: 50 * GB})
    found = measured(host, topology, host.clock, lambda _: None)
    return Calibration(found.limits, 1e9, how, found.writebacks, found.notes)


def test_the_command_takes_the_model_although_servers_run(tmp_path):
    make_controller(tmp_path, 0, 4_800_000)
    host = FakeHost()
    host.boot()
    source = VpmuCounters(CounterSettings(connect=lambda: None, vpmu_directory=tmp_path))
    done = calibrate.run(source, FakeGuests(host), print, is_forced=False)
    assert done.how == "vpmu"
    assert not done.is_of_earlier_release
    assert as_table(done).startswith("limits: 3.4 M misses/s per NUMA node")


def test_it_does_not_measure_beside_running_servers():
    host = FakeHost()
    for _ in range(7):
        host.boot()
    with pytest.raises(
        CannotCalibrate, match=r"7 servers run on this host \(server-1, .*\.\.\.\).*--force"
    ):
        calibrate.run(NoCounters(""), FakeGuests(host), print, is_forced=False)


def test_it_does_not_measure_beside_programs_that_use_cpus():
    with pytest.raises(CannotCalibrate, match=r"other programs use 3\.2 of .* CPUs.*--force"):
        calibrate.run(
            NoCounters(""), FakeGuests(FakeHost()), print, is_forced=False, busy_cpus=lambda: 3.2
        )


@pytest.mark.parametrize(("busy", "cpus"), [(0.4, 2), (3.1, 64)])
def test_what_any_host_does_is_not_busy(busy, cpus):
    calibrate._check_quiet(busy, cpus)


def test_the_table_has_a_row_for_each_curve():
    lines = as_table(a_calibration()).splitlines()
    assert lines[0].startswith("limits: 437.5 M misses/s per NUMA node")
    assert lines[1] == "the limit of a node is 70% of its highest rate, 625.0 M lines/s"
    assert any(line.startswith("write-backs are estimated") for line in lines)
    rows = [line.split() for line in lines if line.startswith(("node 0 ", "link 0-1"))]
    assert rows == [
        ["node", "0", "reads", "625.0", "100", "121", "150", "193", "300", "550", "1050"],
        ["node", "0", "100", "reads", ":", "50", "writes", "625.0", "100", "121", "150", "193",
         "300", "550", "1050"],
        ["link", "0-1", "reads", "312.5", "160", "194", "240", "309", "480", "880", "1680"],
        ["link", "0-1", "100", "reads", ":", "50", "writes", "312.5", "160", "194", "240", "309",
         "480", "880", "1680"],
    ]  # fmt: skip


def test_what_is_printed_as_json_is_what_is_kept(tmp_path):
    found = a_calibration()
    state = StateFolder(str(tmp_path))
    state.set_calibration(found)
    assert json.loads((tmp_path / "limits.json").read_text()) == as_json(found)
    assert from_json(json.loads(json.dumps(as_json(found)))) == found


def test_a_picture_is_made_of_the_curves(tmp_path):
    plot(tmp_path / "curves.svg", a_calibration())
    drawn = (tmp_path / "curves.svg").read_text()
    assert drawn.startswith("<?xml")
    assert os.listdir(tmp_path) == ["curves.svg"]


def test_there_is_no_picture_of_limits_alone(tmp_path):
    with pytest.raises(CannotCalibrate, match="no curves"):
        plot(tmp_path / "curves.svg", Calibration(Limits(1e6), 1e9, "vpmu"))


def shown(folder, *words):
    config = folder / "nova-vp.conf"
    config.write_text(
        f"[DEFAULT]\ntransport_url = fake://\n[agent]\nstate_directory = {folder}/state\n"
    )
    argv = [sys.executable, "-m", "vp_agent.cli.main", "--config-file", config, "calibrate"]
    return subprocess.run([*argv, *words], capture_output=True, text=True)


def test_what_is_kept_is_shown_without_a_measurement(tmp_path):
    missing = shown(tmp_path, "--show")
    assert missing.returncode == 1
    assert "nothing is stored yet" in missing.stderr
    StateFolder(str(tmp_path / "state")).set_calibration(a_calibration())
    told = shown(tmp_path, "--show", "-f", "json", "--plot", str(tmp_path / "curves.png"))
    assert told.returncode == 0, told.stderr
    assert json.loads(told.stdout) == as_json(a_calibration())
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert shown(tmp_path, "--show").stdout == as_table(a_calibration()) + "\n"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"node_misses_per_s": -1}'])
def test_a_file_that_cannot_be_read_is_not_called_missing(tmp_path, text):
    (tmp_path / "state").mkdir()
    (tmp_path / "state/limits.json").write_text(text)
    told = shown(tmp_path, "--show")
    assert told.returncode == 1
    assert told.stdout == ""
    path = tmp_path / "state/limits.json"
    assert told.stderr.splitlines()[-1] == (
        f"vp-agent: {path} cannot be read: run `vp-agent calibrate` without --show, which replaces "
        "it"
    )


def test_warnings_are_not_among_the_results(tmp_path):
    earlier = Calibration(Limits(1e6, None, 1.4), 1e9, MEASURED)
    StateFolder(str(tmp_path / "state")).set_calibration(earlier)
    told = shown(tmp_path, "--show", "--json")
    assert json.loads(told.stdout) == as_json(earlier)
    assert "was measured by an earlier release" in told.stderr


def test_two_calibrations_never_measure_at_once(tmp_path):
    state, other = StateFolder(str(tmp_path)), StateFolder(str(tmp_path))
    with state.alone() as is_alone, other.alone() as too:
        assert (is_alone, too) == (True, False)
    with other.alone() as is_alone:
        assert is_alone
    assert list(tmp_path.iterdir()) == []


def test_a_second_calibration_says_that_one_is_under_way(tmp_path):
    state = StateFolder(str(tmp_path / "state"))
    with state.alone():
        told = shown(tmp_path)
    assert told.returncode == 1
    assert told.stderr.splitlines()[-1].startswith(
        "vp-agent: another calibration of this host is under way: wait until it ends, then use "
        "--show"
    )


@pytest.mark.parametrize(
    ("words", "name"), [([], "table"), (["-f", "json"], "json"), (["--json"], "json")]
)
def test_json_has_two_names(words, name):
    parser = ArgumentParser()
    calibrate.add_arguments(parser)
    assert parser.parse_args(words).format == name
