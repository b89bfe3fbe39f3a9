# SPDX-License-Identifier: Apache-2.0
"""The command `numa-lab` itself: what comes back from the machine, and that nothing stays behind.

These run outside the machine, against one that is up for all of them.
"""

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from testbed.emulated.machine import ROOT
from testbed.numa.settings import MACHINE, NUMA
from tests.waiting import wait_until

COMMAND = str(NUMA / "numa-lab")
FAILED = 125
"""Of numa-lab itself; every other status is the command's."""


def numa_lab(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=600)


@contextmanager
def begun(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    pipe = subprocess.PIPE
    with subprocess.Popen([COMMAND, *arguments], stdout=pipe, stderr=pipe, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


@contextmanager
def an_endless_run() -> Iterator[subprocess.Popen[str]]:
    """Its command is at work."""
    with begun("run", "--", "bash", "-c", "echo begun; exec sleep 4000") as running:
        assert running.stdout is not None
        assert running.stdout.readline() == "begun\n"
        yield running


@pytest.fixture(scope="module", autouse=True)
def _down_at_the_end() -> Iterator[None]:
    yield
    numa_lab("down")


@pytest.fixture
def up() -> None:
    assert numa_lab("up").returncode == 0


def test_output_and_exit_status_come_back(up):
    done = numa_lab("run", "--", "bash", "-c", "echo out; echo err >&2; exit 7")
    assert (done.stdout, done.stderr, done.returncode) == ("out\n", "err\n", 7)
    assert numa_lab("run", "--", "bash", "-c", "kill -9 $$").returncode == 128 + signal.SIGKILL
    assert numa_lab("run", "--", "no-such-command").returncode == 127


def test_much_output_comes_back_whole(up):
    done = numa_lab("run", "--", "seq", "200000")
    assert done.stdout == "".join(f"{number}\n" for number in range(1, 200001))


def test_a_command_sees_this_checkout_and_leaves_files_in_its_cache_only(up):
    source = "tests/numa/test_numa_lab.py"
    script = f"sha256sum {source}; echo x >{source}; echo kept >.cache/left-by-a-test"
    done = numa_lab("run", "--", "bash", "-c", script)
    here = subprocess.run(
        ["sha256sum", source], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert (done.returncode, done.stdout) == (0, here.stdout)
    left = MACHINE.shared / "left-by-a-test"
    assert left.read_text() == "kept\n"
    left.unlink()


def test_two_at_once_are_refused_with_words(up):
    with an_endless_run() as first:
        second = numa_lab("run", "--", "true")
        assert second.returncode == FAILED
        assert f"pid {first.pid}" in second.stderr
        first.send_signal(signal.SIGINT)
        assert first.wait(timeout=20) == FAILED


def test_one_that_waits_has_its_turn(up):
    with an_endless_run() as first, begun("run", "--wait", "60", "--", "echo", "my turn") as second:
        first.kill()
        assert second.stdout is not None
        assert second.stdout.read() == "my turn\n"
        assert second.wait(timeout=60) == 0


def test_the_command_of_a_killed_run_is_killed(up):
    with an_endless_run() as running:
        running.kill()
    assert numa_lab("run", "--", "pgrep", "-x", "sleep").stdout == ""


def test_a_deadline_ends_the_command_and_says_so(up):
    done = numa_lab("run", "--timeout", "2", "--", "sleep", "4000")
    assert done.returncode == FAILED
    assert "did not end `sleep 4000` within 2 s" in done.stderr
    assert numa_lab("run", "--", "pgrep", "-x", "sleep").stdout == ""


def test_down_ends_whatever_runs(up):
    with an_endless_run() as running:
        assert numa_lab("down").returncode == 0
        assert running.wait(timeout=20) == FAILED
        assert running.stderr is not None
        assert "went down" in running.stderr.read()
    assert numa_lab("status").stdout == "down\n"
    assert not MACHINE.run.exists()
    assert numa_lab("down").returncode == 0


def test_a_killed_run_takes_the_machine_that_it_booted_with_it():
    assert numa_lab("down").returncode == 0
    with begun("run", "--", "true") as running:
        wait_until(MACHINE.find_pid, "QEMU to start", 600)
        running.kill()
    wait_until(lambda: MACHINE.find_pid() is None, "QEMU to end")
