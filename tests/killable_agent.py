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

from nova_vp.core.controllers.base import Answer, Controller, NoSettings, NoState, View
from nova_vp.core.pipeline import plan
from nova_vp.core.types.claim import ClaimGroup, PredictedLoss, Setting
from nova_vp.core.types.knob import Knob, Quota
from nova_vp.core.types.policy import Enabled, Policy
from nova_vp.core.types.reason import Reason
from vp_agent import wiring
from vp_agent.cli import main as agent

# Imported late by the agent; here it would be imported anew in every run.
from vp_agent.drivers import cgroups

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
        """The pid. With `lease_s` its core also caps every guest, for so long."""
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
        cap_everybody(float(lease_s))
    sys.argv = ["vp-agent", *arguments]
    status = 1
    try:
        status = agent.main()
    except BaseException:
        traceback.print_exc()
    finally:
        # Never back into the loop of the process that forked.
        os._exit(status)


class Capper(Controller):
    """Caps every guest without any reason."""

    name = "capper"
    needs_counters = False
    reasons = (Reason("cap-everybody", 850, "the test wants it", "this server was capped"),)

    def run(self, view: View, state: NoState, settings: NoSettings) -> Answer:
        groups = (
            ClaimGroup(
                controller=self.name,
                guest_uuid=uuid,
                settings=(Setting(uuid, Knob.CPU_CAP, CAP),),
                domain_ids=(),
                reason=self.reasons[0],
                predicted_loss=PredictedLoss(0.0, 0.0),
            )
            for uuid, guest in view.host.guests.items()
            if not guest.unmanaged
        )
        return Answer(state, tuple(groups))


def cap_everybody(lease_s: float) -> None:
    """In this process, for good."""
    real = wiring.policy_from
    capper = Enabled(Capper(), NoSettings())

    def policy_from(conf: Any) -> Policy:
        policy = real(conf)
        return replace(policy, controllers=(*policy.controllers, capper))

    wiring.policy_from = policy_from
    plan.LEASE_S = lease_s


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
