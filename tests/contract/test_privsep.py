# SPDX-License-Identifier: Apache-2.0
"""The privileged helper: started by the first call, holding CAP_SYS_NICE and nothing else."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

CAP_SYS_NICE = 23
# Another user's process, as QEMU is for an unprivileged agent.
A_GUEST = """
import ctypes, sys, threading
def run():
    ctypes.CDLL(None).prctl(15, b"CPU 0/TCG", 0, 0, 0)
    print("ready", flush=True)
    threading.Event().wait()
threading.Thread(target=run, daemon=True).start()
sys.stdin.read()
"""
# In a process of its own: oslo.privsep is configured once per process.
CALLER = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from oslo_config import cfg
from vp_agent import privsep
from vp_agent.drivers import vcpu_threads

def is_ours(command_line):
    words = command_line.read_bytes().split(b"\\0")
    return any(word.startswith(os.environ["TMPDIR"].encode()) for word in words)

def effective(folder):
    status = dict(l.split(":", 1) for l in (folder / "status").read_text().splitlines())
    return int(status["CapEff"], 16)

pid, helper, cpu = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
cfg.CONF([], default_config_files=[])
cfg.CONF.set_override("helper_command", helper, group="vp_agent_sys_nice")
started = vcpu_threads.read_process(pid).started
answer = {"error": ""}
try:
    privsep.set_affinity(pid, started, [cpu])
    # The helper is nobody's child; its socket stands on its command line.
    helpers = [p.parent for p in Path("/proc").glob("[0-9]*/cmdline") if is_ours(p)]
    answer["capabilities"] = [effective(folder) for folder in helpers]
    privsep.set_affinity(pid, started - 1, [cpu])
except OSError as exc:
    answer["error"] = f"{type(exc).__name__}: {exc}"
answer["affinity"] = [sorted(s) for s in vcpu_threads.read_affinity(vcpu_threads.read_tids(pid))]
print(json.dumps(answer))
"""


@pytest.fixture
def guest() -> Iterator[int]:
    if os.geteuid() != 0:
        pytest.skip("the privileged helper needs root to start from")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(["/usr/bin/python3", "-c", A_GUEST], user=65534, **pipes) as process:
        assert process.stdout.readline() == b"ready\n"
        yield process.pid
        process.stdin.close()


def call(guest: int, helper: str, cpu: int, temporary: Path):
    command = [sys.executable, "-c", CALLER, str(guest), helper, str(cpu)]
    env = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_helper_moves_threads_with_one_capability(guest, tmp_path):
    cpu = max(os.sched_getaffinity(0))
    helper = Path(sys.executable).with_name("privsep-helper")
    answer = call(guest, str(helper), cpu, tmp_path)
    assert answer["affinity"] == [[cpu]]
    assert answer["capabilities"] == [1 << CAP_SYS_NICE]
    assert answer["error"].startswith("ProcessLookupError")  # of the second call, a reused pid


def test_a_helper_that_does_not_start_is_a_permission_error(guest, tmp_path):
    answer = call(guest, str(shutil.which("false")), 0, tmp_path)
    assert answer["error"].startswith("PermissionError")
    assert answer["affinity"] == [sorted(os.sched_getaffinity(0))]
