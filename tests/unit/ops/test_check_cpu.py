# SPDX-License-Identifier: Apache-2.0
"""`vp-agent check --cpu`: the encodings of another CPU, or why it is refused."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cpuinfo import EPYC_MILAN, EPYC_ROME, NEOVERSE_N1, SKYLAKE_SERVER, of_x86
from vp_agent.cli import check_cpu

QEMU_MODELS = {
    "EPYC-Rome": EPYC_ROME,
    "EPYC-Milan": EPYC_MILAN,
    "Skylake-Server": SKYLAKE_SERVER,
    "Neoverse-N1": NEOVERSE_N1,
}


def asked(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("vp-agent")
    command = [program, "check", "--cpu", path, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_prints_encodings_and_meanings_as_json(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text(EPYC_MILAN, encoding="utf-8")
    answer = asked(path, "--json")
    told: dict[str, Any] = json.loads(answer.stdout)
    assert (answer.returncode, told["refused"], told["events_of"]) == (0, "", "AMD Zen 3")
    remote = told["metrics"]["llc_misses_remote"]
    assert (remote["select"], remote["umask"], remote["config"]) == ("0x44", "0x40", "0x4044")
    assert "memory of another node" in remote["meaning"]
    assert "55898" in told["source"]


def test_the_command_refuses_with_words_and_a_status(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text(of_x86("AuthenticAMD", 23, 1, 2), encoding="utf-8")
    answer = asked(path, "-f", "json")
    told: dict[str, Any] = json.loads(answer.stdout)
    assert answer.returncode == 2
    assert told["cpu"] == "AuthenticAMD family 23 model 1 stepping 2"
    assert "no events are known" in told["refused"]
    assert "metrics" not in told


@pytest.mark.parametrize("name", QEMU_MODELS)
def test_the_table_names_every_metric_within_100_columns(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text(QEMU_MODELS[name], encoding="utf-8")
    assert check_cpu.run(path, as_json=False) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 100
    for metric in ("cycles", "llc_references", "llc_misses", "llc_misses_remote", "bus_locks"):
        assert any(line.startswith(f"{metric} ") for line in lines), metric
    assert any("EXTLLC" in line for line in lines) == (name == "Neoverse-N1")


def test_a_refusal_is_one_sentence_of_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "registers"
    path.write_text("nothing that names a CPU", encoding="utf-8")
    assert check_cpu.run(path, as_json=False) == 2
    assert capsys.readouterr().out.startswith("refused: no CPU is named")
