# SPDX-License-Identifier: Apache-2.0
"""What an operator gets wrong in the configuration is said in one line, by the services as run."""

import subprocess
import sys
from pathlib import Path

import pytest

WRONG = [
    ("[agent]\ninterval_s = nan", "interval_s = nan: give a finite number"),
    ("[agent]\ninterval_s =", "interval_s = : give a finite number"),
    ("[policy]\nmoves_per_minute =", "for the default, 6"),
    ("[policy]\neffect_window_s = inf", "[policy] effect_window_s = inf"),
    ("[policy]\nhysteresis_ratio = soup", "hysteresis_ratio"),
    ("[bus]\nmin_publish_interval_s = nan", "min_publish_interval_s"),
    ("[vp_scheduler]\nstale_after_s = nan", "stale_after_s"),
]


def told_by(program: str, folder: Path, text: str, *command: str) -> str:
    file = folder / "nova-vp.conf"
    file.write_text(f"[DEFAULT]\n{text}\n")
    path = Path(sys.executable).with_name(program)
    argv = [str(path), "--config-file", str(file), *command]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1]


@pytest.mark.parametrize(("text", "words"), WRONG)
def test_a_wrong_number_is_told(tmp_path: Path, text: str, words: str) -> None:
    line = told_by("vp-agent", tmp_path, text, "status")
    assert line.startswith("vp-agent: configuration: ")
    assert words in line


def test_vp_scheduler_tells_it_too(tmp_path: Path) -> None:
    line = told_by("vp-scheduler", tmp_path, "[vp_scheduler]\nbatch_size = soup")
    assert line.startswith("vp-scheduler: configuration: ")
    assert "batch_size" in line


def test_a_host_name_that_nobody_would_hear_is_told(tmp_path: Path) -> None:
    folders = f"state_directory = {tmp_path}/state\nrun_directory = {tmp_path}/run"
    line = told_by("vp-agent", tmp_path, f"[agent]\nhost = a b\n{folders}", "run")
    assert line.startswith("vp-agent: configuration: [agent] host = 'a b'")


def test_a_bus_that_cannot_be_is_told(tmp_path: Path) -> None:
    folders = f"state_directory = {tmp_path}/state\nrun_directory = {tmp_path}/run"
    text = f"[agent]\n{folders}\n[bus]\ntransport_url = soup"
    assert "rabbit://user:password@host:5672/" in told_by("vp-agent", tmp_path, text, "run")
