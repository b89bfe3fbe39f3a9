# SPDX-License-Identifier: Apache-2.0
"""What benchmarks print: budgets scaled to the machine, and on stderr why one does not succeed."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.bench import agent, harness
from tests.bench.__main__ import BENCHMARKS
from tests.bench.harness import Benchmark, Budget, CannotMeasure, fixed, run, scaled
from tests.bench.live_counters import LiveCounters


def a_benchmark(measure, **budgets) -> Benchmark:
    return Benchmark("example", "an example", budgets, measure)


@pytest.fixture
def on(monkeypatch):
    """Chooses how fast the machine is."""
    return lambda ms: monkeypatch.setattr(harness, "measure_machine_ms", lambda: ms)


@pytest.mark.parametrize(
    ("label", "budget", "machine_ms", "limit"),
    [
        ("as stated", scaled(2.0), 40.0, 2.0),
        ("a slower machine", scaled(2.0), 60.0, 3.0),
        ("a faster machine", scaled(2.0), 20.0, 1.0),
        ("a count", fixed(2), 60.0, 2),
        ("nothing allowed", scaled(0.0), 60.0, 0.0),
    ],
)
def test_budgets_of_time_grow_with_the_machines_slowness(label, budget, machine_ms, limit) -> None:
    assert budget.on(machine_ms) == limit, label


def test_the_machine_is_measured_in_milliseconds() -> None:
    assert 1 < harness.measure_machine_ms() < 10_000


@pytest.mark.parametrize("benchmark", BENCHMARKS, ids=lambda one: one.name)
def test_every_budget_says_whether_it_is_scaled(benchmark) -> None:
    assert all(isinstance(budget, Budget) for budget in benchmark.budgets.values())


def test_json_has_the_speed_of_the_machine(on, capsys) -> None:
    on(50.0)
    assert run(a_benchmark(lambda: {"step_ms": 2.4}, step_ms=scaled(2.0)), as_json=True) == 0
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"step_ms": 2.4, "machine_ms": 50.0}
    assert printed.err == ""


@pytest.mark.parametrize("as_json", [True, False])
def test_a_missed_budget_is_named_on_stderr(on, capsys, as_json) -> None:
    on(60.0)
    numbers = {"step_ms": 3.5, "rss_mib": 111.5, "rate": 9.0, "lost": 0.0}
    budgets = {"step_ms": scaled(2.0), "rss_mib": fixed(110.0), "lost": fixed(0)}
    assert run(a_benchmark(lambda: numbers, **budgets), as_json=as_json) == 1
    assert capsys.readouterr().err.splitlines() == [
        "example: step_ms is 3.5, over its budget of 3 (2 at machine_ms 40)",
        "example: rss_mib is 111.5, over its budget of 110",
    ]


def test_a_number_that_is_none_misses_its_budget(on, capsys) -> None:
    on(40.0)
    assert run(a_benchmark(lambda: {"lag_s": float("nan")}, lag_s=scaled(1.0))) == 1
    assert "lag_s is nan, over its budget of 1" in capsys.readouterr().err


def test_the_table_shows_scaled_budgets(on, capsys) -> None:
    on(60.0)
    numbers = {"step_ms": 2.5, "rss_mib": 100.0}
    run(a_benchmark(lambda: numbers, step_ms=scaled(2.0), rss_mib=fixed(110.0)))
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["│", "step_ms", "│", "2.5", "│", "3", "│", "ok", "│"] in rows
    assert ["│", "rss_mib", "│", "100", "│", "110", "│", "ok", "│"] in rows
    assert any(row[:2] == ["machine_ms", "60:"] for row in rows)


def test_json_may_tell_more_than_what_is_limited(on, capsys) -> None:
    on(40.0)
    found = {"runs": [{"loss": 0.3}]}
    nested = Benchmark(
        name="nested",
        about="an example",
        budgets={"loss_ratio": fixed(0.1)},
        measure=lambda: found,
        numbers_of=lambda found: {"loss_ratio": found["runs"][0]["loss"]},
    )
    assert run(nested, as_json=True) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {**found, "machine_ms": 40.0}
    assert printed.err == "nested: loss_ratio is 0.3, over its budget of 0.1\n"


def failing(exc: BaseException):
    def measure():
        raise exc

    return a_benchmark(measure)


def test_what_is_missing_is_said_without_a_traceback(capsys) -> None:
    assert run(failing(CannotMeasure("libvirtd is not installed")), as_json=True) == 1
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == (
        "",
        "example was not measured: libvirtd is not installed\n",
    )


def test_a_failure_ends_with_what_failed(capsys) -> None:
    assert run(failing(TimeoutError("waited 60 s for a guest")), as_json=True) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("Traceback")
    assert printed.err.splitlines()[-1] == "example failed: TimeoutError: waited 60 s for a guest"


def test_sigterm_is_said() -> None:
    def terminated():
        os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(SystemExit, match="example was ended by SIGTERM"):
        run(a_benchmark(terminated))
    assert signal.getsignal(signal.SIGTERM) is before


def notes_of_a_failure(folder) -> list[str]:
    def fail() -> None:
        with agent.with_logs(folder):
            raise TimeoutError("waited 60 s for a guest")

    with pytest.raises(TimeoutError) as failed:
        fail()
    return failed.value.__notes__


def test_a_failure_of_the_agents_benchmark_carries_the_last_lines_of_its_log(tmp_path) -> None:
    lines = [f"line {number}" for number in range(100)]
    (tmp_path / "agent.log").write_text("\n".join(lines))
    [note] = notes_of_a_failure(tmp_path)
    assert note.splitlines() == ["the last lines of agent.log:", *lines[-agent.LAST_LINES :]]


def test_before_the_agent_is_started_other_logs_explain_a_failure(tmp_path) -> None:
    (tmp_path / "rabbitmq").mkdir()
    (tmp_path / "rabbitmq" / "server.log").write_text("no port is free")
    assert notes_of_a_failure(tmp_path) == [
        "the last lines of rabbitmq/server.log:\nno port is free",
        "the last lines of libvirt/log/libvirtd.log:",
    ]


def test_an_agent_that_ends_by_itself_is_noticed_at_once(tmp_path) -> None:
    scene = agent.Scene(
        tmp_path, host=None, broker=None, counters=LiveCounters(), with_classes=False
    )
    scene.agent = subprocess.Popen([sys.executable, "-c", "raise SystemExit(3)"])
    with pytest.raises(RuntimeError, match="the agent ended by itself, with status 3"):
        scene.pass_time_until(lambda: False, "nothing", within_s=60.0)
