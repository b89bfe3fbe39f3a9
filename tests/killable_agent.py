# SPDX-License-Identifier: Apache-2.0
"""`vp-agent` as a process that dies by SIGKILL at a chosen call, for tests of undo.

`Agents` is the test's end, `python -m tests.killable_agent` the other: it imports the real agent
once and forks a process for each run, so that a test can afford dozens. Nothing in the product
knows of this: what is handed to it are the real drivers in a wrapper that counts.
"""

import json
import os
import signal
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import libvirt
from stevedore import ExtensionManager

from nova_vp.core.types.action import Action, Change
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import NO_QUOTA, Knob, Quota
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import Reason
from nova_vp.core.types.state import CoreState
from nova_vp.core.types.want import PredictedLoss
from vp_agent import wiring
from vp_agent.cli import main as agent

# Imported late by the agent; here it would be imported anew in every run.
from vp_agent.drivers import cgroups
from vp_agent.loop import tick

ROOT = Path(__file__).parent.parent
PLUGINS = ("vp_agent.actuators", "vp_agent.counters", "vp_agent.memory", "vp_agent.partition")
CAP = Quota(45_000, 90_000)
"""Another period than the default: both files of a version 1 cgroup change."""


@dataclass(frozen=True, slots=True)
class Death:
    """SIGKILL `when` ("before" or "after") the `nth` call of a driver's method."""

    when: str
    call: str
    nth: int = 1

    def __str__(self) -> str:
        return f"{self.when} {self.call} {self.nth}"


class Agents:
    """Runs of `vp-agent`, in the mount namespace that `inside` (a command's start) enters."""

    def __init__(self, inside: list[str]) -> None:
        self._process = subprocess.Popen(
            [*inside, sys.executable, "-m", "tests.killable_agent"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            cwd=ROOT,
            text=True,
        )

    def start(
        self,
        log: Path,
        arguments: list[str],
        death: Death | None = None,
        lease_s: float | None = None,
    ) -> int:
        """The pid. With `lease_s` its core also wants every guest capped, for so long."""
        return int(self._ask("start", str(log), str(death or ""), str(lease_s or ""), *arguments))

    def wait(self, pid: int) -> int:
        """The exit status; that of a killed one is the negative signal."""
        return int(self._ask("wait", str(pid)))

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=20)
        self._process.stdout.close()

    def _ask(self, *words: str) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(words), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())


def serve() -> None:
    # What the agent would look for and import anew in every run.
    for group in PLUGINS:
        ExtensionManager(group)
    running: set[int] = set()
    for line in sys.stdin:
        order, *words = json.loads(line)
        if order == "start":
            pid = fork(*words)
            running.add(pid)
            print(pid, flush=True)
        else:
            pid = int(words[0])
            running.discard(pid)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    for pid in running:
        os.kill(pid, signal.SIGKILL)


def fork(log: str, death: str, lease_s: str, *arguments: str) -> int:
    pid = os.fork()
    if pid:
        return pid
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for number in (1, 2):
        os.dup2(file, number)
    if death:
        when, call, nth = death.split()
        arm(Death(when, call, int(nth)))
    if lease_s:
        tick.step = capping(tick.step, float(lease_s))
    sys.argv = ["vp-agent", *arguments]
    status = 1
    try:
        status = agent.main()
    except BaseException:
        traceback.print_exc()
    finally:
        # Never back into the loop of the process that forked.
        os._exit(status)


Step = Callable[[CoreState, Picture, Policy], tuple[CoreState, Decision]]


def capping(real: Step, lease_s: float) -> Step:
    """The core with one more controller, which caps without any reason."""

    def step(state: CoreState, picture: Picture, policy: Policy) -> tuple[CoreState, Decision]:
        state, decision = real(state, picture, policy)
        caps = tuple(
            a_cap(guest, picture, lease_s)
            for guest in picture.guests
            if not guest.unmanaged and is_due(guest, picture, lease_s)
        )
        return state, replace(decision, actions=(*decision.actions, *caps))

    return step


def is_due(guest: Guest, picture: Picture, lease_s: float) -> bool:
    applied = picture.applied.get(guest.uuid)
    held = applied.of(Knob.CPU_CAP) if applied else None
    runs_out = held is None or held.until_s is None or held.until_s < picture.at_s + lease_s / 2
    return runs_out or guest.quota != CAP


def a_cap(guest: Guest, picture: Picture, lease_s: float) -> Action:
    until_s = picture.at_s + lease_s
    change = Change(guest.uuid, Knob.CPU_CAP, CAP, guest.quota, NO_QUOTA, until_s)
    return Action(
        id="cap-1",
        controller="cap",
        guest_uuid=guest.uuid,
        changes=(change,),
        domain_ids=(),
        reason=Reason.RENEW_CAP,
        decided_s=picture.at_s,
        predicted_loss=PredictedLoss(0.0, 0.0),
    )


def arm(death: Death) -> None:
    """In this process, for good."""
    deadly = Deadly(death)
    real = wiring.libvirt_side

    def libvirt_side(conf: Any, **options: Any) -> wiring.LibvirtSide:
        side = real(conf, **options)
        return replace(
            side,
            journal=Watched(side.journal, {"write": "journal", "drop": "drop"}, deadly),
            actuator=Watched(
                side.actuator,
                {"apply": "apply", "restore": "restore"},
                deadly,
            ),
        )

    wiring.libvirt_side = libvirt_side
    cgroups._write_quota = deadly.watch("quota", cgroups._write_quota)
    tuned = deadly.watch("quota", libvirt.virDomain.setSchedulerParametersFlags)
    libvirt.virDomain.setSchedulerParametersFlags = tuned
    os.sched_setaffinity = deadly.watch("vcpu", os.sched_setaffinity)
    libvirt.virDomain.pinVcpuFlags = deadly.watch("vcpu", libvirt.virDomain.pinVcpuFlags)


class Deadly:
    def __init__(self, death: Death) -> None:
        self._death = death
        self._calls = 0

    def watch(self, call: str, act: Callable[..., Any]) -> Callable[..., Any]:
        if call != self._death.call:
            return act

        def watched(*arguments: Any) -> Any:
            self._calls += 1
            is_due = self._calls == self._death.nth
            if is_due and self._death.when == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            result = act(*arguments)
            if is_due:
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        return watched


class Watched:
    """A driver whose methods named in `calls` may be the last."""

    def __init__(self, driver: Any, calls: Mapping[str, str], deadly: Deadly) -> None:
        self._driver = driver
        self._watched = {m: deadly.watch(call, getattr(driver, m)) for m, call in calls.items()}

    def __getattr__(self, name: str) -> Any:
        return self._watched.get(name) or getattr(self._driver, name)


if __name__ == "__main__":
    serve()
