# SPDX-License-Identifier: Apache-2.0
"""`vp-agent calibrate` on this machine and a real libvirt: what it measures, and what is left when
it is stopped."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import wait_until

VP_AGENT = Path(sys.executable).with_name("vp-agent")
INTERRUPTED = 130
EARLIER = json.dumps(
    {
        "node_misses_per_s": 1e6,
        "link_misses_per_s": None,
        "remote_penalty_ratio": 1.4,
        "at": 1.0,
        "how": "measured",
    }
)


@pytest.fixture
def command(libvirt_host, tmp_path):
    """Of a host without counters that model it: memory is measured for real."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("one CPU loads memory while another one measures it")
    file = tmp_path / "vp.conf"
    file.write_text(
        f"[agent]\nhost = here\nlibvirt_uri = {libvirt_host.uri}\ncounters = libvirt\n"
        f"state_directory = {tmp_path}/state\nrun_directory = {tmp_path}/run\n"
    )
    (tmp_path / "state").mkdir()
    # Other tests use this machine's CPUs.
    options = ["--config-file", file, "calibrate", "--force", "--json"]
    return [*libvirt_host.inside(), VP_AGENT, *options]


def test_this_machine_is_measured_and_remembered(command, tmp_path):
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert json.loads((tmp_path / "state/limits.json").read_text()) == found
    assert found["how"] == "measured"
    assert found["node_misses_per_s"] > 0
    assert [curve["writeback_ratio"] > 0 for curve in found["curves"]] == [False, True]
    for curve in found["curves"]:
        loads = [point["lines_per_s"] for point in curve["points"]]
        assert len(loads) > 1
        assert loads == sorted(loads)
        assert all(point["latency_ns"] > 0 for point in curve["points"])
    assert "1/1 node 0: its memory, loaded by" in done.stderr


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_who_stops_it_keeps_what_was_known_before(command, tmp_path, stop):
    (tmp_path / "state/limits.json").write_text(EARLIER)
    # Tests that run in the background ignore SIGINT, and what they start would.
    running = subprocess.Popen(
        ["env", "--default-signal=INT", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    first = running.stderr.readline()
    assert first.startswith("1/1 "), first + running.stderr.read()
    workers = wait_until(lambda: children_of(running.pid), "memory to be loaded")
    if stop == signal.SIGINT:
        os.killpg(running.pid, stop)  # As a terminal does it: to all that it started.
    else:
        running.send_signal(stop)
    _, told = running.communicate(timeout=20)
    assert (tmp_path / "state/limits.json").read_text() == EARLIER
    assert set(os.listdir(tmp_path / "state")) == {"limits.json"}
    wait_until(lambda: not any(map(Path.exists, workers)), "the workers to end")
    if stop != signal.SIGKILL:
        assert running.returncode == INTERRUPTED
        assert told.startswith("interrupted: nothing was saved.")


def children_of(pid):
    found = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [Path("/proc", child) for child in found]
