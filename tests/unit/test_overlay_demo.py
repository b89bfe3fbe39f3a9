# SPDX-License-Identifier: Apache-2.0
"""What `make overlay-demo` shows and judges of what was measured."""

import json
from typing import Any

import pytest
from rich.console import Console

from testbed.lab.lag_meter import MAX_RATIO
from testbed.lab.sessions import Served
from tests.bench import overlay_demo as demo
from tests.bench.harness import CannotMeasure
from tests.bench.overlay_demo import Row
from vp_agent.monitors.runner import open_monitors

LIMITS = tuple(f"limits {one}" for one in demo.STATIC_CORES)
RATES = {
    demo.ALONE: 80.0,
    **dict(zip(LIMITS, (60.0, 50.0, 40.0, 30.0, 20.0), strict=True)),
    demo.TUNE: 76.0,
    demo.BORROW: 90.0,
    demo.MISLED: 55.0,
}


def served(per_s: float) -> Served:
    return Served(per_s, p50_ms=250.0, p95_ms=400.0, mean_ms=260.0, deviation_ms=50.0)


def found(debt_ratio: float = 0.01, **rates: float) -> list[Row]:
    return [
        Row(name, {"": served(per_s), "browse": served(per_s / 2)}, (per_s,), 0, 1e6, debt_ratio)
        for name, per_s in {**RATES, **rates}.items()
    ]


def told(rows: list[Row]) -> str:
    console = Console(width=demo.WIDTH)
    with console.capture() as captured:
        console.print(demo.table(rows))
    return captured.get()


def test_the_table_fits_and_compares_with_the_limits_of_the_source() -> None:
    lines = told(found()).splitlines()
    assert max(map(len, lines)) <= 100
    cells = [[cell.strip() for cell in line.split("│")[1:5]] for line in lines]
    assert ["tune", "76.0", "1.27", "250"] in cells


def test_what_is_as_it_should_be_is_not_complained_of() -> None:
    assert demo.judge(found()) == ""


@pytest.mark.parametrize(
    ("about", "problem"),
    [
        ({"debt_ratio": 2 * MAX_RATIO}, "invalid: the machine was"),
        ({demo.TUNE: 62.0}, "tune serves 1.03 times what limits 1.5 1.5 1.5 do, at least 1.05"),
        ({LIMITS[1]: 75.0}, "tune serves 1.01 times what limits 2 2 1.5 do"),
        ({demo.BORROW: 70.0}, "borrowed CPUs bring nothing"),
        ({demo.MISLED: 75.0}, "classes that are swapped do as well"),
    ],
)
def test_what_is_not_is_said(about: dict[str, Any], problem: str) -> None:
    assert demo.judge(found(**about)).startswith(problem)


def test_a_run_ends_with_a_report_and_a_picture(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(demo, "REPORT", tmp_path / "report.json")
    monkeypatch.setattr(demo, "PICTURE", tmp_path / "picture.png")
    assert demo.run(found) == 0
    assert json.loads((tmp_path / "report.json").read_text())[0]["served"]["browse"]["per_s"] == 40
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert demo.run(lambda: found(**{demo.TUNE: 50.0})) == 1
    assert "tune serves 0.83 times" in capsys.readouterr().err


def test_a_machine_without_taps_is_told_so(capsys: pytest.CaptureFixture[str]) -> None:
    def measure() -> list[Row]:
        raise CannotMeasure("there is no /dev/net/tun")

    assert demo.run(measure) == 2
    assert capsys.readouterr().err == "overlay-demo: there is no /dev/net/tun\n"


def test_its_monitors_are_lines_that_the_agent_takes() -> None:
    uuids = {
        tier: f"00000000-0000-4000-8000-00000000000{number}"
        for number, tier in enumerate(demo.TIERS)
    }
    for servers in (demo.BUSY, demo.SWAPPED):
        open_monitors([demo.request_classes(uuids, servers), demo.WAITING])
