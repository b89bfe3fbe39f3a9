# SPDX-License-Identifier: Apache-2.0
"""The shipped systemd units: their command lines are ours, and systemd finds nothing to say."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nova_vp.service.run_dir import boot_clock_s
from testbed.lab.host import release_loop
from vp_agent.loop.control_socket import RunFolder

UNITS = sorted((Path(__file__).parents[2] / "etc/nova-vp/systemd").iterdir())
VENV_BIN = Path(sys.executable).parent
EXEC = re.compile(r"^(Exec\w+)=((?:vp-|waitress-)\S+)(.*)$", re.M)
COMMANDS = {
    (program, arguments.strip())
    for unit in UNITS
    for _, program, arguments in EXEC.findall(unit.read_text())
    if program.startswith("vp-")
}
NO_OPTION = "--no-such-option"


@pytest.mark.parametrize(("program", "arguments"), sorted(COMMANDS))
def test_a_command_line_is_one_our_parsers_accept(program: str, arguments: str) -> None:
    """A parser names everything that it does not know: here, only what we add."""
    command = [VENV_BIN / program, *arguments.split(), NO_OPTION]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.endswith(f"error: unrecognized arguments: {NO_OPTION}\n")


def test_systemd_understands_every_line(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    for unit in UNITS:
        # It insists on programs that exist, where it looks for them.
        (tmp_path / unit.name).write_text(EXEC.sub(rf"\1={VENV_BIN}/\2\3", unit.read_text()))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *sorted(tmp_path.iterdir())],
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


CONDITIONS = {
    "systemd": re.search(
        r"^ExecCondition=(.*)$",
        next(u for u in UNITS if u.name == "vp-agent-release.service").read_text(),
        re.M,
    )[1],
    "lab": shlex.join(["/bin/sh", "-c", re.search(r"if (.*?); then", release_loop()[2])[1]]),
}


@pytest.mark.parametrize("place", CONDITIONS)
@pytest.mark.parametrize(
    ("beaten", "looks"),
    [
        pytest.param(None, False, id="forgotten"),
        pytest.param(lambda now_s: f"{now_s:020.6f}", False, id="alive"),
        pytest.param(lambda now_s: f"{now_s - 20:020.6f}", True, id="silent"),
        pytest.param(lambda now_s: f"{now_s + 1000:020.6f}", True, id="of another boot"),
        pytest.param(lambda now_s: f"0 {now_s:.6f}", True, id="asked by the hook"),
        pytest.param(lambda _: "", True, id="cut short"),
    ],
)
@pytest.mark.parametrize("clock_jump_s", [0, -100_000, 100_000])
def test_a_look_is_taken_once_the_agents_heart_has_stopped(
    tmp_path, place, beaten, looks, clock_jump_s
):
    """By the time since boot that the heartbeat holds; when the file says it was written, by a
    clock that was set meanwhile, changes nothing."""
    beat = tmp_path / "agent.alive"
    if beaten is not None:
        beat.write_text(beaten(boot_clock_s()))
        os.utime(beat, times=(time.time() + clock_jump_s,) * 2)
    text = CONDITIONS[place].replace("/run/nova-vp/agent.alive", str(beat)).replace("$$", "$")
    done = subprocess.run(shlex.split(text), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0 if looks else 1, "")


def test_the_heartbeat_is_what_the_condition_reads(tmp_path):
    RunFolder(str(tmp_path)).beat()
    first = (tmp_path / "agent.alive").read_text().split()[0]
    assert abs(float(first) - boot_clock_s()) < 60


def test_units_that_share_a_runtime_directory_do_not_remove_it() -> None:
    """systemd removes it when any of them ends: lock and socket of a running agent would go."""
    sharing = [text for unit in UNITS if "RuntimeDirectory=" in (text := unit.read_text())]
    assert len(sharing) == 2
    assert all("RuntimeDirectoryPreserve=yes" in text for text in sharing)
