# SPDX-License-Identifier: Apache-2.0
"""What a placement is worth, and what is said of a file that is not one."""

import json
import re

import pytest
from rich.console import Console

from tests.unit.docs.pages import PAGES
from vp_sim.cli import main
from vp_sim.evaluate import as_table, evaluate
from vp_sim.measure import best_of, efficiency, worst_degradation
from vp_sim.mixes import MIXES, Memory, Mix, members
from vp_sim.mixfile import read_mix
from vp_sim.placement import Placed, VmPlace, placement_of, put
from vp_sim.placementfile import BadPlacement, as_text, read_placement
from vp_sim.policies import find
from vp_sim.run import simulate, start, world_of

BASELINE = find(("baseline",))["baseline"]
NODE_1, NODE_2 = frozenset(range(8, 16)), frozenset(range(16, 24))
MIX = Mix("pair", members({"stream": 2, "voldemort": 1}))
MIX_TEXT = "{name: pair, applications: [{app: stream, count: 2}, {app: voldemort}]}"
WHOLE = "stream-1: {node: 1}, stream-2: {llc: 2}, voldemort-1: [{node: 3}, {cpus: 24-27}]"


def read(tmp_path, applications: str, mix: Mix = MIX):
    path = tmp_path / "placement.yaml"
    path.write_text(f"applications: {{{applications}}}")
    return read_placement(path, mix)


def test_a_file_says_where_every_vm_is(tmp_path):
    placement = read(
        tmp_path,
        "stream-1: {cpus: '8-9,11', memory_percent: {1: 75, '2': 25}, cap_percent: 62.5}, "
        "stream-2: {llc: 2}, voldemort-1: {node: 3}",
    )
    assert placement["stream-1"] == (VmPlace(frozenset({8, 9, 11}), ((1, 0.75), (2, 0.25)), 0.625),)
    assert placement["stream-2"] == (VmPlace(NODE_2, ((2, 1.0),)),)
    assert placement["voldemort-1"] == (VmPlace(frozenset(range(24, 32)), ((3, 1.0),)),) * 2


@pytest.mark.parametrize(
    ("applications", "said"),
    [
        ("stream-1: {node: 1}", "applications: stream-2 is missing: add where it runs"),
        (f"{WHOLE}, mcf-1: {{node: 1}}", "'mcf-1' is not in the mix; pair has stream-1, stream-2"),
        (WHOLE.replace("node: 1", "node: 7"), "applications/stream-1/node: .* no 7: use .*1, 2, 3"),
        (WHOLE.replace("llc: 2", "llc: 0"), "applications/stream-2/llc: .* no 0: use one of 1"),
        (WHOLE.replace("24-27", "0-3"), "applications/voldemort-1/1/cpus: '0-3' .* some of 8-31"),
        (WHOLE.replace("24-27", "first"), "voldemort-1/1/cpus: 'first' is not a CPU or a range"),
        (WHOLE.replace("24-27", "''"), "voldemort-1/1/cpus: '' are not CPUs"),
        (WHOLE.replace("24-27", "12-19"), "voldemort-1/1: its CPUs are on nodes 1, 2: add memory"),
        (WHOLE.replace("node: 1", "core: 1"), "applications/stream-1: .*'core'.*use one of node"),
        (
            WHOLE.replace("node: 1", "node: x"),
            "applications/stream-1/node: here is 'x'; give a whole",
        ),
        (WHOLE.replace("node: 1", "node: 1, llc: 1"), "stream-1: give one of .*; here is node and"),
        (WHOLE.replace("node: 1", ""), "stream-1: give one of .*; here is none of them"),
        (WHOLE.replace("[{node: 3}, ", "["), "voldemort-1: 1 VMs are listed and it has 2: list 2"),
        (WHOLE.replace("[{node: 3}, {cpus: 24-27}]", "[]"), "applications/voldemort-1: "),
        (
            WHOLE.replace("node: 1", "node: 1, memory_percent: {1: 60, 2: 50}"),
            "stream-1/memory_percent: the shares add up to 110: make it 100",
        ),
        (
            WHOLE.replace("node: 1", "node: 1, memory_percent: {4: 100}"),
            "stream-1/memory_percent: the machine has no 4: use one of 1, 2, 3",
        ),
        (
            WHOLE.replace("node: 1", "node: 1, memory_percent: {1: much}"),
            "stream-1/memory_percent/1: here is 'much'; give a number",
        ),
        (
            WHOLE.replace("node: 1", "node: 1, memory_percent: {true: 100}"),
            "stream-1/memory_percent: the machine has no True: use one of 1, 2, 3",
        ),
        (
            WHOLE.replace("node: 1", "node: 1, cap_percent: 0"),
            "stream-1/cap_percent: 0 is less than the minimum of 1",
        ),
        ("stream-1: {node: 1}, stream-1: {node: 2}", "stream-1 is given twice"),
    ],
)
def test_a_wrong_placement_is_told_where_and_what(tmp_path, applications, said):
    with pytest.raises(BadPlacement, match=said):
        read(tmp_path, applications)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "not a placement: start with `applications"),
        ("{}", "at the top: 'applications' is missing; add it"),
        ("[", "neither YAML nor JSON"),
    ],
)
def test_what_is_no_placement_is_told(tmp_path, text, said):
    path = tmp_path / "placement.yaml"
    path.write_text(text)
    with pytest.raises(BadPlacement, match=said):
        read_placement(path, MIX)
    with pytest.raises(BadPlacement, match="No such file"):
        read_placement(tmp_path / "none.yaml", MIX)


def test_more_memory_than_a_node_has_is_refused(tmp_path):
    mix = Mix("full", members({"stream": 9}))
    everybody = ", ".join(f"stream-{n}: {{node: 1}}" for n in range(1, 10))
    with pytest.raises(BadPlacement, match="36864 MiB are placed on node 1, which has 32768 MiB"):
        read(tmp_path, everybody, mix)


def test_what_is_written_is_read_back(tmp_path):
    split = VmPlace(frozenset({8, 9, 20}), ((1, 0.40625), (3, 0.59375)), 0.55)
    placement = {
        "stream-1": (split,),
        "stream-2": (VmPlace(NODE_2, ((2, 1.0),)),),
        "voldemort-1": (VmPlace(NODE_1, ((1, 1.0),)), split),
    }
    path = tmp_path / "placement.json"
    path.write_text(as_text(placement))
    assert read_placement(path, MIX) == placement
    assert json.loads(path.read_text())["applications"]["stream-1"]["cap_percent"] == 55


@pytest.mark.parametrize("seed", [0, 7])
def test_where_nobody_moves_the_final_placement_is_worth_what_the_run_was(seed):
    mix = MIXES["streaming-mapreduce"]
    world = world_of(mix)
    runs = [simulate(world, BASELINE, number) for number in range(8)]
    best_s, run = best_of(runs), runs[seed]
    found = evaluate(mix, run.final, runs=8)
    assert found.worst_degradation == pytest.approx(worst_degradation(run, best_s))
    assert found.worst_degradation > 0.02
    assert found.pe == pytest.approx(efficiency(run, best_s, cores=24))


def test_a_fixed_placement_is_there_at_once_and_counts_no_move():
    world = world_of(MIX)
    placement = {
        "stream-1": (VmPlace(NODE_1, ((1, 0.25), (2, 0.75))),),
        "stream-2": (VmPlace(NODE_2, ((2, 1.0),), 0.5),),
        "voldemort-1": (VmPlace(NODE_1, ((1, 1.0),)), VmPlace(NODE_2, ((2, 1.0),))),
    }
    host = start(world, 3)
    put(host, placement)
    assert placement_of(host) == placement
    assert all(sum(g.memory_kib.values()) == 4096 * 1024 for g in host.guests.values())
    run = simulate(world, Placed(placement), 3)
    assert run.final == placement
    assert run.tally.vcpu_moves == run.tally.memory_moves == 0


def test_memory_elsewhere_and_a_cap_cost_what_they_cost():
    mix = Mix("two", members({"milc": 2}), memory=Memory.LOCAL)
    local = {f"milc-{n}": (VmPlace(cpus, ((n, 1.0),)),) for n, cpus in ((1, NODE_1), (2, NODE_2))}
    remote = {**local, "milc-1": (VmPlace(NODE_1, ((3, 1.0),)),)}
    capped = {**local, "milc-1": (VmPlace(NODE_1, ((1, 1.0),), 0.5),)}
    lost = [evaluate(mix, one, 2).vs_solo("milc-1") for one in (local, remote, capped)]
    assert lost[0] == pytest.approx(0.0, abs=0.01)
    assert lost[1] > 0.2
    assert lost[2] == pytest.approx(0.99 / 0.5 - 1, abs=0.02)


def test_what_run_saves_evaluate_scores(tmp_path, capsys):
    mix, saved = tmp_path / "mix.yaml", tmp_path / "end.json"
    mix.write_text(MIX_TEXT)
    words = ["--mix", str(mix)]
    assert main(["run", *words, "--policy", "llc", "--save-placement", str(saved)]) == 0
    capsys.readouterr()
    assert main(["evaluate", *words, "--placement", str(saved), "--runs", "3", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["mix"] == "pair"
    assert set(shown["applications"]) == {"stream-1", "stream-2", "voldemort-1"}
    worst = max(app["degradation"] for app in shown["applications"].values())
    assert shown["worst_degradation"] == worst
    assert main(["evaluate", *words, "--placement", str(saved), "--runs", "3"]) == 0
    told = capsys.readouterr().out
    assert f"PE {shown['pe']:.3f}" in told
    assert max(map(len, told.splitlines())) <= 100


def test_a_wrong_placement_ends_with_a_line_on_stderr(tmp_path, capsys):
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text("applications: {}")
    assert main(["evaluate", "--mix", "merlin", "--placement", str(wrong)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"vp-sim: {wrong}: applications: voldemort-1 is missing")


def test_a_table_of_odd_cpus_and_memory_is_as_wide_as_a_terminal():
    cpus = frozenset(range(8, 32, 2))
    place = VmPlace(cpus, ((1, 0.33), (2, 0.33), (3, 0.34)), 0.5)
    table = as_table(evaluate(MIX, {m.label: (place,) * m.row.guests for m in MIX.members}, 1))
    screen = Console(markup=False, width=100)
    with screen.capture() as told:
        screen.print(table)
    assert max(map(len, told.get().splitlines())) <= 100
    assert "…" not in told.get()


def test_the_mix_and_the_placement_of_the_guide_fit_each_other(tmp_path):
    guide = PAGES["doc/source/simulator.md"]
    mix, placement = re.findall(r"```yaml\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "my-host.yaml").write_text(mix)
    (tmp_path / "mine.yaml").write_text(placement)
    found = read_mix(tmp_path / "my-host.yaml")
    assert len(read_placement(tmp_path / "mine.yaml", found)) == len(found.members)


PERMITS_TEXT = (
    "{name: pair, applications: [{app: stream, count: 2, extra_specs: {'vp:llc_permit': '9000'}}, "
    "{app: voldemort}]}"
)


@pytest.mark.needs_controllers("permits")
def test_permits_that_a_placement_books_and_leaves(tmp_path, capsys):
    mix, placement = tmp_path / "mix.yaml", tmp_path / "placement.yaml"
    mix.write_text(PERMITS_TEXT)
    placement.write_text(f"applications: {{{WHOLE}}}")
    ask = ["evaluate", "--mix", str(mix), "--placement", str(placement), "--runs", "1"]
    assert main([*ask, "--llc-permits-per-domain", "50000", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["llc_permits"]
    streams = {number: one for number, one in told.items() if one["booked"]}
    assert streams.keys() == {"1", "2"}
    [booked] = {one["booked"] for one in streams.values()}
    assert booked % 9000 == 0 < booked
    assert {one["free"] for one in streams.values()} == {50000 - booked}
    assert told["3"] == {"booked": 0, "free": 50000}
    assert main(ask) == 0
    assert "any number" in capsys.readouterr().out
    mix.write_text(MIX_TEXT)
    assert main(ask) == 0
    assert "booked" not in capsys.readouterr().out
