# SPDX-License-Identifier: Apache-2.0
"""The lab's supervisor with real processes: it keeps, ends, replaces and starts again."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from testbed.lab import settings
from testbed.lab.supervise import Service, prepare, write_atomically
from testbed.lab.waiting import wait_for

SLEEP = ("sleep", "600")
STUBBORN = ("sh", "-c", "trap '' TERM; while :; do sleep 600 & wait; done")


class Subject:
    """A supervisor of a folder and what it says there."""

    def __init__(self, folder):
        self.folder = folder
        prepare(folder)
        argv = [sys.executable, "-m", "testbed.lab.supervise", str(folder)]
        self.process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, cwd=settings.ROOT)

    def want(self, name, argv, revision=""):
        service = Service(
            name=name,
            argv=argv,
            environment={"PATH": os.environ["PATH"]},
            log=str(self.folder / f"{name}.log"),
            folder="/",
            revision=revision,
        )
        write_atomically(self.folder / "services" / f"{name}.json", service.to_json())

    def running(self, name):
        with suppress(OSError):
            pid, starts = (self.folder / "running" / name).read_text().split()
            return int(pid), int(starts)
        return None

    def wait_running(self, name, starts=1):
        return wait_for(
            lambda: (now := self.running(name)) and now[1] >= starts and now[0],
            f"start {starts} of {name}",
            deadline_s=20,
        )


@pytest.fixture
def supervisor(tmp_path):
    subject = Subject(tmp_path)
    yield subject
    for path in (tmp_path / "running").iterdir():
        with suppress(OSError, ValueError):
            os.killpg(int(path.read_text().split()[0]), signal.SIGKILL)
    subject.process.kill()
    subject.process.wait()


def is_gone(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, 0)
        return False
    return True


def test_a_killed_process_is_started_again(supervisor):
    supervisor.want("one", SLEEP)
    pid = supervisor.wait_running("one")

    os.kill(pid, signal.SIGKILL)

    assert supervisor.wait_running("one", starts=2) != pid


def test_a_stopped_process_ends_and_stays_away_until_allowed(supervisor):
    supervisor.want("one", SLEEP)
    pid = supervisor.wait_running("one")

    stopped = supervisor.folder / "stopped" / "one"
    write_atomically(stopped, "SIGTERM")
    wait_for(lambda: supervisor.running("one") is None, "the end", deadline_s=20)
    assert is_gone(pid)

    stopped.unlink()
    supervisor.wait_running("one", starts=2)


def test_a_process_that_ignores_its_end_is_killed_by_the_signal_asked_for(supervisor):
    supervisor.want("one", STUBBORN)
    pid = supervisor.wait_running("one")

    write_atomically(supervisor.folder / "stopped" / "one", "SIGKILL")

    wait_for(lambda: is_gone(pid), "the end", deadline_s=20)


def test_a_changed_description_replaces_the_process(supervisor):
    supervisor.want("one", SLEEP, revision="old")
    pid = supervisor.wait_running("one")

    supervisor.want("one", SLEEP, revision="new")

    assert supervisor.wait_running("one", starts=2) != pid


def test_workers_of_a_killed_parent_end_too(supervisor, tmp_path):
    worker_pid = tmp_path / "worker"
    supervisor.want("one", ("sh", "-c", f"sleep 600 & echo $! >{worker_pid}; wait"))
    pid = supervisor.wait_running("one")
    text = wait_for(
        lambda: worker_pid.exists() and worker_pid.read_text(), "the worker", deadline_s=20
    )

    os.kill(pid, signal.SIGKILL)

    # The orphan may stay a zombie where nobody reaps: only its state tells that it ended.
    wait_for(lambda: has_ended(int(text)), "the worker's end", deadline_s=20)


def has_ended(pid):
    with suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "Z"
    return True


def test_a_program_that_does_not_exist_says_so_in_its_log(supervisor):
    supervisor.want("one", ("/no/such/program",))

    log = supervisor.folder / "one.log"
    wait_for(
        lambda: log.exists() and "one cannot be started" in log.read_text(), "a log", deadline_s=20
    )
