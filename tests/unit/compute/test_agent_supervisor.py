# SPDX-License-Identifier: Apache-2.0
"""One agent per host under nova-compute: started, restarted, left alone, and never orphaned.

The agents here are small programs with the real lock and the real lifeline; the process that keeps
them is real too where it has to die.
"""

import fcntl
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import pytest

from nova_vp.compute import agent_supervisor
from nova_vp.compute.agent_supervisor import AgentSupervisor
from nova_vp.service.run_dir import is_agent_running
from tests.waiting import wait_until
from vp_agent.loop.control_socket import RunFolder

pytestmark = pytest.mark.nova
ROOT = Path(__file__).parents[3]
AGENT = """
import os, sys, threading
from vp_agent.loop.parent_watch import stop_with_parent
from vp_agent.loop.control_socket import RunFolder
assert sys.argv[2] == "--lifeline"
stop = threading.Event()
stop_with_parent(stop)
folder = RunFolder(sys.argv[1])
with folder.locked():
    (folder.path / "pid").write_text(str(os.getpid()))
    stop.wait()
    (folder.path / "undone").touch()
"""
PARENT = """
import sys, time
from pathlib import Path
from nova_vp.compute.agent_supervisor import AgentSupervisor
AgentSupervisor(sys.argv[1], Path(sys.argv[2])).start()
time.sleep(600)
"""


PAUSES_S = (0.05, 0.1, 0.2)
"""Between tries: by doubling up to the last."""


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_supervisor, "POLL_S", 0.02)
    monkeypatch.setattr(agent_supervisor, "LOOK_AGAIN_S", 0.02)
    monkeypatch.setattr(agent_supervisor, "BACK_OFF_S", (PAUSES_S[0], PAUSES_S[-1]))


@pytest.fixture
def command(tmp_path: Path) -> Iterator[str]:
    program = tmp_path / "agent.py"
    program.write_text(AGENT)
    yield f"env PYTHONPATH={ROOT} {sys.executable} {program} {tmp_path}"
    with suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)


def wait_for_agent(folder: Path, other_than: int = 0) -> int:
    def pid() -> int:
        with suppress(FileNotFoundError, ValueError):
            found = int((folder / "pid").read_text())
            return found if found != other_than and is_agent_running(folder) else 0
        return 0

    return int(wait_until(pid, "an agent"))


def wait_until_gone(folder: Path) -> None:
    wait_until(lambda: not is_agent_running(folder), "the agent to end")
    assert (folder / "undone").exists()


def test_it_starts_an_agent_and_ends_it_through_the_lifeline(command: str, tmp_path: Path) -> None:
    one = AgentSupervisor(command, tmp_path)
    one.start()
    wait_for_agent(tmp_path)
    one.close(20)
    wait_until_gone(tmp_path)


def test_an_agent_that_dies_is_started_again(command: str, tmp_path: Path) -> None:
    one = AgentSupervisor(command, tmp_path)
    one.start()
    first = wait_for_agent(tmp_path)
    os.kill(first, signal.SIGKILL)
    wait_for_agent(tmp_path, other_than=first)
    one.close(20)
    wait_until_gone(tmp_path)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_however_its_parent_ends_the_agent_does_too(
    command: str, tmp_path: Path, number: signal.Signals
) -> None:
    argv = [sys.executable, "-c", PARENT, command, str(tmp_path)]
    parent = subprocess.Popen(argv, cwd=ROOT)
    wait_for_agent(tmp_path)
    parent.send_signal(number)
    parent.wait(20)
    wait_until_gone(tmp_path)


def test_an_agent_of_somebody_else_is_left_alone_and_followed_by_ours(
    command: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO, "nova_vp")
    looks: list[bool] = []

    def look(folder: Path) -> bool:
        looks.append(is_agent_running(folder))
        return looks[-1]

    monkeypatch.setattr(agent_supervisor, "is_agent_running", look)
    one = AgentSupervisor(command, tmp_path)
    other = RunFolder(str(tmp_path))
    with other.locked():
        other.beat()
        one.start()
        wait_until(lambda: len(looks) >= 5, "the keeper to look five times")
        assert not (tmp_path / "pid").exists()
    wait_for_agent(tmp_path)
    one.close(20)
    wait_until_gone(tmp_path)
    assert caplog.text.count("left alone") == 1


@pytest.mark.parametrize("beat", [None, "0 1.0\n", "1.0\n"])
def test_who_holds_the_lock_and_is_no_agent_keeps_none_from_running(
    command: str,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    beat: str | None,
) -> None:
    """Any user of the host can open that file; the heartbeat is the agent's alone."""
    monkeypatch.setattr(agent_supervisor, "PATIENCE_S", 0.1)
    with RunFolder(str(tmp_path)).locked():
        pass  # An agent ran before.
    if beat:
        (tmp_path / "agent.alive").write_text(beat)
    with (tmp_path / "agent.lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        one = AgentSupervisor(command, tmp_path)
        one.start()
        wait_for_agent(tmp_path)
        one.close(20)
    wait_until_gone(tmp_path)
    assert "agent.lock is locked, but no agent beats" in caplog.text


def test_an_agent_that_has_not_beaten_yet_is_given_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [100.0]
    one = AgentSupervisor("false", tmp_path, clock=lambda: now_s[0])
    other = RunFolder(str(tmp_path))
    with other.locked():
        assert one._is_another_there()
        now_s[0] += agent_supervisor.PATIENCE_S - 1
        assert one._is_another_there()
        other.beat()
        now_s[0] += agent_supervisor.PATIENCE_S
        assert one._is_another_there(), "it beats"
        other.forget_beat()
        assert one._is_another_there()
        now_s[0] += agent_supervisor.PATIENCE_S
        assert not one._is_another_there()


@pytest.mark.parametrize("wrong", ["/no/such/program", "false", "'open quote"])
def test_what_does_not_run_is_tried_again_at_growing_intervals(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, wrong: str
) -> None:
    one = AgentSupervisor(wrong, tmp_path)
    one.start()

    def told() -> list[str]:
        return [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]

    wait_until(lambda: len(told()) >= 4, "four tries")
    one.close(20)
    assert all("[vp_compute] agent_command" in line for line in told())
    created = [r.created for r in caplog.records if r.levelname == "ERROR"]
    between_s = [after - before for before, after in pairwise(created)]
    assert all(
        waited_s > 0.9 * pause_s for waited_s, pause_s in zip(between_s, PAUSES_S, strict=False)
    ), between_s


def test_pauses_double_up_to_a_bound_and_begin_anew_after_a_steady_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(agent_supervisor, "BACK_OFF_S", (1.0, 8.0))
    one = AgentSupervisor("false", tmp_path)
    assert [one._back_off("ended", 0.1) for _ in range(5)] == [1, 2, 4, 8, 8]
    assert [one._back_off("ended", ran) for ran in (agent_supervisor.STEADY_S, 0.1)] == [1, 2]
