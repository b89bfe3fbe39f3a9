# SPDX-License-Identifier: Apache-2.0
"""The real agent, or a policy of the simulator in its place, on a host of paced guests."""

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from testbed.lab.errors import LabError
from testbed.lab.waiting import wait_for
from tests.bench.paced_guests import PacedHost
from vp_agent.loop.control_socket import NoAgent, RunFolder, ask

PRODUCT = "vp"
DEADLINE_S = 30.0
CONFIG = """\
[DEFAULT]
transport_url = fake://
[agent]
host = bench
mode = {mode}
counters = vpmu
state_directory = {folder}/{state}
run_directory = {folder}/agent-run
vpmu_directory = {folder}/vpmu
cpu_times = {cpu_times}
{more}
"""


@contextmanager
def an_agent(
    host: PacedHost, policy: str, mode: str, state: str = "state", more: str = ""
) -> Iterator[None]:
    """From when it has seen the host until it has ended. `state`: the folder of what it knows;
    `more`: further lines of its configuration."""
    config, ready = _write_config(host, mode, state, more), host.folder / "ready"
    ready.unlink(missing_ok=True)
    if policy == PRODUCT:
        argv = ["vp_agent.cli.main", "--config-file", str(config), "run"]
    else:
        argv = ["tests.bench.policy_agent", policy, str(ready), str(config)]
    with (host.folder / "agent.log").open("w") as log:
        command = [*host.libvirt.inside(), sys.executable, "-m", *argv]
        agent = subprocess.Popen(command, stdout=log, stderr=log, env=host.env)
    try:
        wait_for(
            lambda: agent.poll() is not None or ready.exists() or agent_report(host),
            f"{policy} to see the host, see {log.name}",
            deadline_s=DEADLINE_S,
        )
        if agent.poll() is not None:
            raise LabError(f"{policy} did not start:\n{Path(log.name).read_text()[-4000:]}")
        yield
        agent.terminate()
        if agent.wait(timeout=DEADLINE_S):
            raise LabError(f"{policy} failed:\n{Path(log.name).read_text()[-4000:]}")
    finally:
        agent.kill()
        agent.wait()


def calibrate(host: PacedHost, state: str = "state") -> subprocess.CompletedProcess[str]:
    """`vp-agent calibrate`, for agents that start afterwards."""
    config = _write_config(host, "observe", state, more="")
    argv = ["vp_agent.cli.main", "--config-file", str(config), "calibrate"]
    command = [*host.libvirt.inside(), sys.executable, "-m", *argv]
    return subprocess.run(command, capture_output=True, text=True, env=host.env)


def agent_report(host: PacedHost) -> Mapping[str, Any]:
    """What the agent says of the host; empty before its first tick."""
    try:
        return ask(RunFolder(str(host.folder / "agent-run")), "status") or {}
    except NoAgent:
        return {}


def _write_config(host: PacedHost, mode: str, state: str, more: str) -> Path:
    path = host.folder / "nova-vp.conf"
    path.write_text(
        CONFIG.format(
            folder=host.folder, mode=mode, state=state, more=more, cpu_times=host.models_cpus
        )
    )
    return path
