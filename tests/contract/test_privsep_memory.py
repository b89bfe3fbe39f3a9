# SPDX-License-Identifier: Apache-2.0
"""Seeing and moving another user's pages: what the kernel asks for, and the helper that has it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.memory_subjects import Writer, a_writer

CAP_SYS_NICE, CAP_SYS_PTRACE = 23, 19
NOBODY, SOMEBODY = 65534, 65533
MIB = 16
# In a process of its own: oslo.privsep is configured once per process.
CALLER = """
import json, sys, warnings
warnings.simplefilter("ignore")
from oslo_config import cfg
from vp_agent import privsep
from vp_agent.drivers.guest_pages import Flow

pid, started, helper = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
cfg.CONF([], default_config_files=[])
cfg.CONF.set_override("helper_command", helper, group="vp_agent_sys_ptrace")
answer = {"error": ""}
try:
    look = privsep.look(pid, started, 16 * 1024)
    address, node = look.spans[0][0], look.nodes[0][0]
    moved = privsep.move_chunk(pid, started, address, 1024, (Flow(node + 7, node, 1.0),))
    answer |= {"pages": sum(n for _, n in look.nodes), "was": moved.was}
    privsep.look(pid, started - 1, 16 * 1024)
except OSError as exc:
    answer["error"] = f"{type(exc).__name__}: {exc}"
print(json.dumps(answer))
"""
# As a user with the capabilities named, and no others.
LOOKER = """
import ctypes, os, struct, sys
pid, started, user, *numbers = map(int, sys.argv[1:])
libc = ctypes.CDLL(None, use_errno=True)
bits = sum(1 << number for number in numbers)
from vp_agent.drivers import guest_pages
libc.prctl(8, 1, 0, 0, 0)  # Keep what is permitted across the change of user.
os.setgroups([]); os.setgid(user); os.setuid(user)
header = struct.pack("=Ii", 0x20080522, 0)
data = struct.pack("=6I", bits & 0xFFFFFFFF, bits & 0xFFFFFFFF, 0, bits >> 32, bits >> 32, 0)
assert libc.capset(header, data) == 0
try:
    guest_pages.look(pid, started, 16 * 1024)
    print("seen")
except PermissionError:
    print("refused")
"""


@pytest.fixture(scope="module")
def guest() -> Iterator[Writer]:
    if os.geteuid() != 0:
        pytest.skip("becoming other users needs root")
    with a_writer(MIB, user=NOBODY) as running:
        yield running


def run(script: str, *arguments: object, temporary: Path) -> str:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    env = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("user", "capabilities", "answer"),
    [
        (SOMEBODY, [], "refused"),
        (SOMEBODY, [CAP_SYS_NICE], "refused"),
        (SOMEBODY, [CAP_SYS_PTRACE], "seen"),
        (NOBODY, [], "seen"),
    ],
)
def test_the_kernel_wants_cap_sys_ptrace_or_the_same_user(
    guest, user, capabilities, answer, tmp_path
):
    ids = guest.process.pid, guest.process.started
    assert run(LOOKER, *ids, user, *capabilities, temporary=tmp_path) == answer


def test_the_helper_looks_and_moves_with_that_one_capability(guest, tmp_path):
    helper = Path(sys.executable).with_name("privsep-helper")
    ids = guest.process.pid, guest.process.started
    answer = json.loads(run(CALLER, *ids, helper, temporary=tmp_path))
    assert answer["pages"] >= MIB * 256 * 0.99
    assert sum(pages for _, pages in answer["was"]) == 1024
    assert answer["error"].startswith("ProcessLookupError")  # of the last call, a reused pid
