# SPDX-License-Identifier: Apache-2.0
"""`vp-agent learn-cpi`: a recording of a latency-critical server alone becomes a threshold."""

import subprocess
import sys
from dataclasses import replace
from random import Random
from types import SimpleNamespace

import pytest

from nova_vp.core.controllers.latency.cpi_models import cpi_models_of
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.sample import Reading
from nova_vp.core.types.service_level import ServiceClass
from nova_vp.core.types.state import CoreState
from nova_vp.core.types.topology import LlcDomain, Topology
from nova_vp.recording.file_format import Header, NotARecording, Tick, Told
from tests.policies import a_policy
from tests.unit.test_recording import lines_of
from vp_agent.cli.learn_cpi import NothingToLearn, learned, run
from vp_agent.cpi_threshold import TooFewSamples

UUID = "11111111-2222-4333-8444-000000000001"
CPUS = frozenset(range(4))
TOPOLOGY = Topology((LlcDomain(0, 0, CPUS),))


def pictures(seconds: int, restart_s: int = -1, service_class=ServiceClass.LATENCY_CRITICAL):
    """At 1.2 cycles per instruction, with a little noise; half of a CPU, once a whole one."""
    random, cycles, ran_ns = Random(1), 0, 0
    for second in range(seconds):
        generation = "2" if 0 <= restart_s <= second else "1"
        guest = Guest("lc", "i", "lc", "p", "f", 2, 1, CPUS, CPUS, ran_ns, generation)
        guest = guest._replace(service_class=service_class)
        reading = Reading(1000 * second, cycles, 0, 0, 0, 2, 1.0, generation)
        yield Picture(float(second), Mode.OBSERVE, TOPOLOGY, (guest,), {"lc": reading}, {})
        cycles += round(1200 * random.gauss(1.0, 0.02))
        ran_ns += 1_000_000_000 if second in (100, 101) else 500_000_000
        if second == restart_s:
            cycles = 10**9


def test_it_prints_threshold_and_most_cpu() -> None:
    [told] = learned(pictures(900))
    uuid, _, model = told.partition("=")
    threshold, _, cores = model.partition("/")
    assert (uuid, float(cores)) == ("lc", 1.0)
    assert 1.2 < float(threshold) < 1.23


def test_one_that_hardly_runs_has_a_model_that_the_option_takes() -> None:
    idle = (
        replace(one, guests=tuple(guest._replace(cpu_time_ns=0) for guest in one.guests))
        for one in pictures(900)
    )
    [told] = learned(idle)
    assert told.endswith("/0.01")
    assert cpi_models_of(told.replace("lc", UUID))[UUID].most_cores == 0.01


def test_an_interval_in_which_counters_began_anew_is_left_out() -> None:
    [told] = learned(pictures(900, restart_s=450))
    assert 1.2 < float(told.partition("=")[2].partition("/")[0]) < 1.23


def beside_best_effort(until_s: float):
    """The same, but until then each instruction takes twice as many cycles, since another works."""
    late = None
    for one in pictures(1400):
        [guest] = one.guests
        other = guest._replace(uuid="be", service_class=ServiceClass.BEST_EFFORT)
        reading = one.readings["lc"]
        if one.at_s <= until_s:
            late = reading.cycles
            reading, guests = reading._replace(cycles=2 * reading.cycles), (guest, other)
        else:
            reading = reading._replace(cycles=reading.cycles + late)
            guests = (guest, other._replace(is_running=False))
        yield replace(one, guests=guests, readings={"lc": reading})


def test_the_time_in_which_a_best_effort_server_ran_is_left_out() -> None:
    [told] = learned(beside_best_effort(until_s=500))
    assert 1.2 < float(told.partition("=")[2].partition("/")[0]) < 1.23
    assert told.endswith("/0.50")


def test_a_recording_in_which_one_always_ran_is_refused() -> None:
    with pytest.raises(NothingToLearn, match="while no best-effort server ran"):
        list(learned(beside_best_effort(until_s=1400)))


def test_a_short_recording_is_refused() -> None:
    with pytest.raises(TooFewSamples, match="at least 20"):
        list(learned(pictures(100)))


def test_a_recording_without_a_latency_critical_server_is_refused() -> None:
    with pytest.raises(NothingToLearn, match="no latency-critical server"):
        list(learned(pictures(10, service_class=None)))


@pytest.fixture
def path(tmp_path):
    """Of a recording."""
    path = tmp_path / "recording"
    header = Header("here", 1.0, a_policy(), CoreState())
    path.write_text("".join(lines_of(header, [Tick(one, (), Told()) for one in pictures(900)])))
    return path


WITHOUT_LIBRARY = """
import sys
sys.modules["sklearn.mixture"] = None
from vp_agent.cli.main import main
sys.exit(main())
"""


def test_the_command_says_what_to_install(path, tmp_path) -> None:
    config = tmp_path / "nova-vp.conf"
    config.write_text("[DEFAULT]\n")
    argv = [sys.executable, "-c", WITHOUT_LIBRARY, "--config-file", config, "learn-cpi", path]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1
    assert "install nova-vp[learn]" in ran.stderr
    assert "Traceback" not in ran.stderr


DAMAGED: dict[str, bytes | None] = {
    "not a recording: the file is not text": b"\xff\xfe\x00",
    "No such file": None,
}


@pytest.mark.parametrize(("said", "content"), DAMAGED.items())
def test_the_command_says_what_is_wrong_with_a_file(said, content, tmp_path) -> None:
    path, config = tmp_path / "recording", tmp_path / "nova-vp.conf"
    config.write_text("[DEFAULT]\n")
    if content is not None:
        path.write_bytes(content)
    argv = [sys.executable, "-m", "vp_agent.cli.main", "--config-file", config, "learn-cpi", path]
    ran = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 1
    assert f"{path}: " in ran.stderr
    assert said in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "state_directory" not in ran.stderr


def test_a_number_that_no_counter_has_is_told(path) -> None:
    lines = path.read_text().splitlines(keepends=True)
    lines[400] = lines[400].replace('"cycles":', '"cycles":' + 400 * "9")
    path.write_text("".join(lines))
    with pytest.raises(NotARecording, match="damaged"):
        run(SimpleNamespace(command=SimpleNamespace(files=[path])))


def test_the_command_reads_a_recording(path, capsys) -> None:
    assert run(SimpleNamespace(command=SimpleNamespace(files=[path]))) == 0
    assert capsys.readouterr().out.startswith("lc=1.2")


def test_a_recording_that_was_begun_anew_is_read_as_a_whole(path, capsys) -> None:
    header, *ticks = path.read_text().splitlines(keepends=True)
    later = replace(Header("here", 1.0, a_policy(), CoreState()), at=451.0)
    pictures_later = list(pictures(900))[450:]
    first = path.with_name(f"{path.name}.1")
    first.write_text("".join([header, *ticks[:300]]))
    path.write_text("".join(lines_of(later, [Tick(one, (), Told()) for one in pictures_later])))
    assert run(SimpleNamespace(command=SimpleNamespace(files=[first, path]))) == 0
    whole = capsys.readouterr()
    assert whole.out.startswith("lc=1.2")
    assert whole.err == ""
    assert run(SimpleNamespace(command=SimpleNamespace(files=[path]))) == 0
    assert capsys.readouterr().err == f"{first}, the part before {path}, was not read\n"
