# SPDX-License-Identifier: Apache-2.0
"""The privileged helpers: started by the first call, each holding one capability and no more."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from vp_agent.drivers.vcpu_threads import read_tids

CAP_DAC_OVERRIDE = 1
CAP_SYS_NICE = 23
CPU_HIERARCHY = Path("/sys/fs/cgroup/cpu")
HELPER = str(Path(sys.executable).with_name("privsep-helper"))
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

pid, helper, group = int(sys.argv[1]), sys.argv[2], sys.argv[3]
cfg.CONF([], default_config_files=[])
cfg.CONF.set_override("helper_command", helper, group=group)
started = vcpu_threads.read_process(pid).started
answer = {"error": ""}
act, values = getattr(privsep, sys.argv[4]), json.loads(sys.argv[5])
try:
    act(pid, started, *values)
    # The helper is nobody's child; its socket stands on its command line.
    helpers = [p.parent for p in Path("/proc").glob("[0-9]*/cmdline") if is_ours(p)]
    answer["capabilities"] = [effective(folder) for folder in helpers]
    act(pid, started - 1, *values)
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


@pytest.fixture
def vcpu_group(guest: int) -> Iterator[Path]:
    """As libvirt makes them, on version 1; another user's file for an unprivileged agent."""
    if not (CPU_HIERARCHY / "tasks").exists():
        pytest.skip("the helper is tried on cgroup version 1")
    group = CPU_HIERARCHY / f"vp-test-{guest}" / "vcpu0"
    group.mkdir(parents=True)
    (tid,) = read_tids(guest)
    (group / "tasks").write_text(str(tid))
    yield group
    (CPU_HIERARCHY / "tasks").write_text(str(tid))
    group.rmdir()
    group.parent.rmdir()


def call(guest: int, helper: str, temporary: Path, group: str, act: str, *values):
    command = [sys.executable, "-c", CALLER, str(guest), helper, group, act, json.dumps(values)]
    env = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_the_helper_moves_threads_with_one_capability(guest, tmp_path):
    cpu = max(os.sched_getaffinity(0))
    answer = call(guest, HELPER, tmp_path, "vp_agent_sys_nice", "set_affinity", [[cpu]], [])
    assert answer["affinity"] == [[cpu]]
    assert answer["capabilities"] == [1 << CAP_SYS_NICE]
    assert answer["error"].startswith("ProcessLookupError")  # of the second call, a reused pid


def test_the_helper_caps_with_one_capability(guest, vcpu_group, tmp_path):
    answer = call(guest, HELPER, tmp_path, "vp_agent_dac_override", "set_quota", 45_000, 90_000)
    written = [(vcpu_group / f"cpu.cfs_{name}_us").read_text() for name in ("quota", "period")]
    assert written == ["45000\n", "90000\n"]
    assert answer["capabilities"] == [1 << CAP_DAC_OVERRIDE]
    assert answer["error"].startswith("ProcessLookupError")


def test_the_helper_weighs_with_one_capability(guest, vcpu_group, tmp_path):
    answer = call(guest, HELPER, tmp_path, "vp_agent_dac_override", "set_weight", 300)
    assert (vcpu_group.parent / "cpu.shares").read_text() == "300\n"
    assert answer["capabilities"] == [1 << CAP_DAC_OVERRIDE]
    assert answer["error"].startswith("ProcessLookupError")


def test_the_helper_weighs_the_other_threads_with_one_capability(guest, vcpu_group, tmp_path):
    others = [vcpu_group.parent / name for name in ("emulator", "iothread1")]
    for group in others:
        group.mkdir()
    try:
        answer = call(guest, HELPER, tmp_path, "vp_agent_dac_override", "set_emulator_weight", 2048)
        assert [(group / "cpu.shares").read_text() for group in others] == ["2048\n", "2048\n"]
        assert (vcpu_group.parent / "cpu.shares").read_text() == "1024\n"
    finally:
        for group in others:
            group.rmdir()
    assert answer["capabilities"] == [1 << CAP_DAC_OVERRIDE]
    assert answer["error"].startswith("ProcessLookupError")


def test_a_helper_that_does_not_start_is_a_permission_error(guest, tmp_path):
    helper = str(shutil.which("false"))
    answer = call(guest, helper, tmp_path, "vp_agent_sys_nice", "set_affinity", [[0]], [])
    assert answer["error"].startswith("PermissionError")
    assert answer["affinity"] == [sorted(os.sched_getaffinity(0))]
