# SPDX-License-Identifier: Apache-2.0
"""Keeps one vp-agent running as a child of this process, and leaves another's agent alone.

The child's standard input is a pipe whose other end only this process has: the agent ends, and
undoes everything, when the pipe closes, however we end. Nothing here is Nova's, and nothing waits
on the threads of others.
"""

import logging
import shlex
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from nova_vp.service.run_dir import LOCK, is_agent_running, silent_for_s

LOG = logging.getLogger(__name__)
LIFELINE = "--lifeline"
POLL_S = 1.0
LOOK_AGAIN_S = 5.0
"""How long nobody looks after an agent that ended and was not ours."""
BEATS_WITHIN_S = 15.0
"""An agent that is well beats every few seconds."""
PATIENCE_S = 60.0
"""With who holds the lock and does not beat: an agent that is starting or ending, or no agent but
another user of the host."""
BACK_OFF_S = (1.0, 60.0)
STEADY_S = 60.0
"""An agent that ran so long was well: the next one is started soon."""


class AgentSupervisor:
    def __init__(
        self, command: str, run_folder: Path, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._command = command
        self._run_folder = run_folder
        self._clock = clock
        self._back_off_s = BACK_OFF_S[0]
        self._is_left_alone = False
        self._silent_since_s: float | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="vp-agent-keeper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """For those who outlive us: nova-compute just ends."""
        self._stop.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        pause_s = 0.0
        while not self._stop.wait(pause_s):
            pause_s = self._keep_one()

    def _keep_one(self) -> float:
        """One agent from start to end, or none because there is one; seconds until the next."""
        try:
            if self._is_another_there():
                return self._leave_alone()
            self._is_left_alone = False
            started_s = self._clock()
            ending = self._attend(self._start())
        except (OSError, ValueError) as exc:
            started_s, ending = self._clock(), f"cannot be started: {exc}"
        if self._stop.is_set():
            return 0.0
        return self._back_off(ending, self._clock() - started_s)

    def _is_another_there(self) -> bool:
        """Whoever wrongly takes an agent for dead does no harm: a second one refuses to start."""
        if not is_agent_running(self._run_folder):
            self._silent_since_s = None
            return False
        silent_s = silent_for_s(self._run_folder)
        if silent_s is not None and silent_s < BEATS_WITHIN_S:
            self._silent_since_s = None
            return True
        if self._silent_since_s is None:
            self._silent_since_s = self._clock()
        if self._clock() - self._silent_since_s < PATIENCE_S:
            return True
        LOG.warning(
            "%s is locked, but no agent beats on this host: one is started. See which process "
            "holds that file (`fuser`)",
            self._run_folder / LOCK,
        )
        return False

    def _leave_alone(self) -> float:
        if not self._is_left_alone:
            LOG.info("an agent that is not ours runs on this host; it is left alone")
        self._is_left_alone = True
        return LOOK_AGAIN_S

    def _start(self) -> "subprocess.Popen[bytes]":
        """Raises OSError; ValueError where quotes in the command are left open."""
        argv = [*shlex.split(self._command), LIFELINE]
        # In a session of its own: signals to nova-compute's group are not meant for it.
        child = subprocess.Popen(argv, stdin=subprocess.PIPE, start_new_session=True)
        LOG.info("started %s (pid %d)", shlex.join(argv), child.pid)
        return child

    def _attend(self, child: "subprocess.Popen[bytes]") -> str:
        """Until it ends, by itself or with us; how it ended."""
        assert child.stdin is not None
        with child.stdin:
            while child.poll() is None and not self._stop.wait(POLL_S):
                pass
        if self._stop.is_set():
            child.wait()
        return f"ended with status {child.returncode}"

    def _back_off(self, ending: str, ran_s: float) -> float:
        least_s, most_s = BACK_OFF_S
        pause_s = least_s if ran_s >= STEADY_S else self._back_off_s
        self._back_off_s = min(2 * pause_s, most_s)
        LOG.error(
            "the agent %s; tried again in %.0f s. See its own messages, and [vp_compute] "
            "agent_command",
            ending,
            pause_s,
        )
        return pause_s
