# SPDX-License-Identifier: Apache-2.0
"""The guest's workload, built for this machine: its lines, its sequences, its grammar's refusals.

Rates and moments are the machine's affair and are not looked at; that an item comes and goes is.
"""

import os
import re
import select
import signal
import subprocess
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "testbed" / "lab" / "guest" / "workload"
RATE = re.compile(
    r"RATE (?P<kind>\w+) t=\d+\.\d{3} epoch=\d{10}\.\d{3} ops=(?P<ops>\d+) vcpu=\d+"
    r"(?P<latencies> p50_us=\d+ p95_us=\d+ p99_us=\d+)?"
)
SWITCH = re.compile(
    r"SWITCH (?P<to>\w+) uptime=\d+\.\d{3} epoch=\d{10}\.\d{3} vcpu=\d+ from=(?P<old>\w+)"
)


@pytest.fixture(scope="module")
def workload(tmp_path_factory):
    binary = tmp_path_factory.mktemp("guest") / "workload"
    subprocess.run(["make", "-s", "-C", SOURCES, f"OUT={binary}"], check=True)

    def run(*arguments):
        return subprocess.run(
            [binary, *arguments], capture_output=True, text=True, timeout=60, check=False
        )

    run.binary = binary
    return run


def lines_of(workload, work, reports=2):
    ended = workload("--period-ms", "20", "--reports", str(reports), work)
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout.splitlines()


def story(lines):
    """The lines without their numbers: a RATE as its kind, a SWITCH as (from, to)."""
    told = []
    for line in lines:
        if rate := RATE.fullmatch(line):
            told.append(rate["kind"])
        else:
            switch = SWITCH.fullmatch(line)
            assert switch, line
            told.append((switch["old"], switch["to"]))
    return told


@pytest.mark.parametrize(
    "work",
    [
        "chase",
        "chase:64",
        "chase:1",
        "compute",
        "stream:256",
        "server:64",
        "server:64/500",
        "server:64/~500",
    ],
)
def test_each_kind_reports_its_rate(workload, work):
    rates = [RATE.fullmatch(line) for line in lines_of(workload, work)]
    kind = re.match(r"\w+", work)[0]
    assert [rate["kind"] for rate in rates] == [kind, kind]
    assert any(int(rate["ops"]) > 0 for rate in rates)
    assert all(bool(rate["latencies"]) == (kind == "server") for rate in rates)


def test_idle_reports_nothing_done(workload):
    assert [RATE.fullmatch(line)["ops"] for line in lines_of(workload, "idle")] == ["0", "0"]


def test_items_of_a_track_follow_each_other(workload):
    told = story(lines_of(workload, "chase:64@0.3,stream:64@0.3,compute", reports=40))
    assert told[0] == "chase"
    assert [step for step in told if isinstance(step, tuple)] == [
        ("chase", "stream"),
        ("stream", "compute"),
    ]
    assert told[-1] == "compute"


def test_an_uptime_that_has_passed_skips_its_item(workload):
    assert story(lines_of(workload, "compute@until=0.1,idle")) == [
        ("compute", "idle"),
        "idle",
        "idle",
    ]


def test_a_timed_last_item_is_followed_by_idleness(workload):
    told = story(lines_of(workload, "compute@0.1", reports=20))
    assert ("compute", "idle") in told
    assert told[-1] == "idle"


def test_tracks_run_side_by_side(workload):
    told = story(lines_of(workload, "compute+chase:64@until=0.1,server:64"))
    assert told.count("compute") == 2
    assert told.count("server") == 2
    assert ("chase", "server") in told


@pytest.mark.parametrize(
    ("work", "servers"), [("server:64@60,server:64/9", 1), ("server:64@60,server:128", 2)]
)
def test_one_server_goes_on_at_another_rate(workload, work, servers):
    with subprocess.Popen([workload.binary, work], stdout=subprocess.PIPE) as running:
        try:
            assert running.stdout.readline().startswith(b"RATE server")
            (track,) = children_of(running.pid)
            assert len(children_of(track)) == servers
        finally:
            os.kill(track, signal.SIGKILL)
            running.kill()


def children_of(pid):
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_job_is_answered_once_all_tracks_have_done_their_part(workload):
    ours, port = os.openpty()
    argv = [workload.binary, "--period-ms", "20", "jobs+jobs"]
    told = {**os.environ, "JOBS_PORT": os.ttyname(port)}
    with subprocess.Popen(argv, env=told, stdout=subprocess.PIPE, text=True) as running:
        try:
            assert running.stdout.readline().startswith("RATE jobs")
            for _ in range(2):
                os.write(ours, b"100000\n")
                assert os.read(ours, 100) == b"done\n"
            assert not select.select([ours], [], [], 0)[0], "once for each job"
        finally:
            for track in children_of(running.pid):
                os.kill(track, signal.SIGKILL)
            os.close(ours)
            os.close(port)


def test_jobs_without_a_port_are_refused(workload):
    ended = workload("jobs")
    assert ended.returncode == 2
    assert "jobs come from the second serial port" in ended.stderr


def test_blanks_around_the_work_are_of_no_account(workload):
    assert story(lines_of(workload, "compute\r\n", reports=1)) == ["compute"]


@pytest.mark.parametrize(
    ("work", "message"),
    [
        ("x", "unknown kind 'x'; known kinds: chase, compute, idle, jobs, server, stream, write"),
        ("compute@5,x:3@2", "unknown kind 'x'; known kinds:"),
        ("", "an item is empty; write the work as KIND[:KIB][@SECONDS], known kinds:"),
        ("chase@1,,compute", "an item is empty"),
        ("chase+", "an item is empty"),
        ("chase:0", "'chase:0': a working set is a whole number of KiB from 1 to 1048576"),
        ("chase:1.5", "'chase:1.5': a working set is a whole number of KiB"),
        ("stream:-8", "'stream:-8': a working set is a whole number of KiB"),
        ("stream:", "'stream:': a working set is a whole number of KiB"),
        ("compute:20", "'compute:20': compute takes no working set, write a time as 'compute@"),
        ("chase@", "'chase@': a time is seconds ('@20') or an uptime in seconds ('@until=40')"),
        ("chase@20s", "'chase@20s': a time is seconds"),
        ("chase@until=", "'chase@until=': a time is seconds"),
        ("server/0", "'server/0': a rate is requests per second ('/100'; '/~100': on average)"),
        ("stream/9", "'stream/9': stream takes no request rate, only server does"),
        ("compute,stream", "'stream' would never start: give the item before it a time, e.g. 'com"),
        ("server/~", "'server/~': a rate is requests per second"),
        (",".join(["idle@1"] * 33), "too many items in a row; 31 is the most"),
        ("+".join(["idle"] * 17), "too many '+'; 16 tracks are the most"),
    ],
)
def test_a_mistake_is_refused_with_what_is_allowed(workload, work, message):
    ended = workload(work)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert ended.stderr.startswith(f"workload: {message}")
    assert ended.stderr.count("\n") == 1


@pytest.mark.parametrize("arguments", [[], ["chase", "chase"], ["--bogus", "chase"]])
def test_wrong_arguments_show_the_usage(workload, arguments):
    ended = workload(*arguments)
    assert ended.returncode == 2
    assert "usage: workload [--period-ms N] [--reports N] WORK" in ended.stderr
