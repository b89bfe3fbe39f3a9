# SPDX-License-Identifier: Apache-2.0
"""The guest's workload, built for this machine: its lines, its sequences, its grammar's refusals.

Rates and moments are the machine's affair and are not looked at; that an item comes and goes is.
"""

import contextlib
import http.client
import itertools
import os
import re
import select
import signal
import socket
import subprocess
from pathlib import Path

import pytest

from testbed.lab.stream import packets_of
from tests.rabbitmq import free_port

SOURCES = Path(__file__).parents[2] / "testbed" / "lab" / "guest" / "workload"
RATE = re.compile(
    r"RATE (?P<kind>\w+) t=\d+\.\d{3} epoch=\d{10}\.\d{3} ops=(?P<ops>\d+) vcpu=\d+"
    r"(?P<latencies> p50_us=\d+ p95_us=\d+ p99_us=\d+)?"
    r"(?: damaged=(?P<damaged>\d+) lost=(?P<lost>\d+))?"
)
MOST_LINES = 500
"""Of 20 ms, until something must have been told."""
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


@contextlib.contextmanager
def running(workload, work, kind):
    """Gives its output once it has begun."""
    argv = [workload.binary, "--period-ms", "20", work]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout.readline().startswith(f"RATE {kind}")
            yield itertools.islice(process.stdout, MOST_LINES)
        finally:
            for track in children_of(process.pid):
                os.kill(track, signal.SIGKILL)
            process.wait(10)


def status_of(client, method, path):
    client.request(method, path)
    return answer_of(client)


def answer_of(client):
    with client.getresponse() as answer:
        answer.read()
        return answer.status


def test_a_tier_asks_the_next_one_and_answers_its_own_classes(workload):
    web, db = free_port(), free_port()
    last = f"tier:port={db};browse=1;bid=2"
    first = f"tier:port={web};browse=2;bid=1;search=1;next=127.0.0.1:{db}"
    client = http.client.HTTPConnection("127.0.0.1", web, timeout=10)
    with running(workload, first, "tier") as told:
        assert status_of(client, "GET", "/browse/7") == 503, "there is no next tier"
        with running(workload, last, "tier"):
            assert status_of(client, "GET", "/browse/7") == 200
            assert status_of(client, "POST", "/bid?x=1") == 200
            assert status_of(client, "GET", "/search") == 503, "the next tier does not know it"
            assert status_of(client, "GET", "/brow") == 404
        with running(workload, last, "tier"):
            assert status_of(client, "GET", "/browse") == 200, "over a connection made anew"
        assert any(int(RATE.fullmatch(line.strip())["ops"]) for line in told)
    client.close()


def test_many_are_served_side_by_side(workload):
    """In whatever order they are read."""
    web, db = free_port(), free_port()
    work = f"tier:port={web};a=0;next=127.0.0.1:{db}+tier:port={db};a=0"
    with running(workload, work, "tier"):
        clients = [http.client.HTTPConnection("127.0.0.1", web, timeout=10) for _ in range(20)]
        for client in clients:
            client.request("GET", "/a")
        assert [answer_of(client) for client in reversed(clients)] == [200] * 20
        for client in clients:
            client.close()


def test_frames_that_lack_a_packet_are_damaged(workload):
    port = free_port()
    with (
        running(workload, f"frames:decode=1;port={port}", "frames") as told,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender,
    ):
        sender.connect(("127.0.0.1", port))
        sender.send(b"no RTP")
        for frame in range(5):
            packets = packets_of(frame, packets=3, length=500)
            for packet in packets[2:] if frame == 3 else packets:
                sender.send(packet)
        whole, damaged, lost = 0, 0, 0
        for rate in (RATE.fullmatch(line.strip()) for line in told):
            whole += int(rate["ops"])
            damaged, lost = damaged + int(rate["damaged"]), lost + int(rate["lost"])
            if whole and damaged:
                break
        assert (whole > 0, damaged, lost) == (True, 1, 2)


def test_blanks_around_the_work_are_of_no_account(workload):
    assert story(lines_of(workload, "compute\r\n", reports=1)) == ["compute"]


@pytest.mark.parametrize(
    ("work", "message"),
    [
        ("x", "unknown kind 'x'; known kinds: chase, compute, frames, idle, jobs, server, "),
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
        ("tier", "'tier': write what a request of each class costs, and the next tier: 'tier:CLAS"),
        ("tier:bid", "'tier:bid': write what a request of each class costs"),
        ("tier:bid=1;buy=x", "'tier:bid=1;buy=x': write what a request of each class costs"),
        ("tier:next=1.2.3", "'tier:next=1.2.3': write what a request of each class costs"),
        ("tier:port=0", "'tier:port=0': write what a request of each class costs"),
        ("frames", "'frames': write what a frame costs: 'frames:decode=KILOROUNDS'"),
        ("frames:decode=1.5", "'frames:decode=1.5': write what a frame costs"),
        ("frames:port=65536", "'frames:port=65536': write what a frame costs"),
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
