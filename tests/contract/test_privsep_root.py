# SPDX-License-Identifier: Apache-2.0
"""The helper for resctrl and systemd: uid 0 without one capability, our groups below one folder
alone, and a process in the place of a unit."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from vp_agent.drivers.resctrl_groups import RESCTRL

# In a process of its own: oslo.privsep is configured once per process.
CALLER = """
import json, os, sys, warnings
warnings.simplefilter("ignore")
from pathlib import Path
from oslo_config import cfg
from vp_agent import privsep_root

def is_ours(command_line):
    words = command_line.read_bytes().split(b"\\0")
    return any(word.startswith(os.environ["TMPDIR"].encode()) for word in words)

def status(folder):
    lines = dict(l.split(":", 1) for l in (folder / "status").read_text().splitlines())
    return {"uid": lines["Uid"].split(), "capabilities": int(lines["CapEff"], 16)}

cfg.CONF([], default_config_files=[])
cfg.CONF.set_override("helper_command", sys.argv[1] or None, group=privsep_root.SECTION)
helper = privsep_root.Helper()
told = []
calls = (
    lambda: helper.make("nova-vp-00000000-0000-0000-0000-000000000001"),
    lambda: helper.limit("nova-vp-00000000-0000-0000-0000-000000000001", "L3:0=1"),
    lambda: helper.assign("pqos", 1, 1),
    lambda: helper.remove("../block"),
    lambda: privsep_root.set_scope_weight(os.getpid(), 0, 300),
)
for call in calls[-1:] if sys.argv[2:] else calls:
    try:
        call()
        told.append("")
    except OSError as exc:
        told.append(type(exc).__name__)
helpers = [status(p.parent) for p in Path("/proc").glob("[0-9]*/cmdline") if is_ours(p)]
print(json.dumps({"told": told, "helpers": helpers}))
"""


def call(helper: str, temporary: Path, *alone: str):
    if os.geteuid() != 0:
        pytest.skip("the privileged helper needs root to start from")
    command = [sys.executable, "-c", CALLER, helper, *alone]
    env = {**os.environ, "TMPDIR": str(temporary)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.skipif((RESCTRL / "info").exists(), reason="would change this host's groups")
def test_the_helper_is_uid_0_without_a_capability_and_knows_our_names_alone(tmp_path):
    answer = call(str(Path(sys.executable).with_name("privsep-helper")), tmp_path)
    assert answer["helpers"] == [{"uid": ["0"] * 4, "capabilities": 0}]
    away = ["FileNotFoundError", "FileNotFoundError"]  # resctrl is not mounted here.
    another = "ProcessLookupError"  # Nothing started when the machine did.
    assert answer["told"] == [*away, "PermissionError", "PermissionError", another]


def test_a_helper_that_does_not_start_is_a_permission_error(tmp_path):
    answer = call(str(shutil.which("false")), tmp_path)
    assert answer["told"] == ["PermissionError"] * 5


def test_without_a_helper_of_the_operators_none_is_tried(tmp_path):
    assert call("", tmp_path, "set_scope_weight")["told"] == ["PermissionError"]
