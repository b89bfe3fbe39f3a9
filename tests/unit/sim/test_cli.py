# SPDX-License-Identifier: Apache-2.0
"""The command: what it prints where, and what it says of a file that is wrong."""

import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.waiting import wait_until
from vp_sim.app_profiles import ROWS
from vp_sim.cli import main
from vp_sim.machine import WESTMERE
from vp_sim.mixfile import BadMix, find_mix, read_mix
from vp_sim.run import world_of

DEADLINE_S = 30.0
PROGRAM = "import sys; from vp_sim.cli import main; sys.exit(main())"

SMP = """
name: small
machine: {nodes: 1, domains_per_node: 4, cores_per_domain: 2, private: l1, llc_mib: 4}
memory: local
applications:
  - {app: mcf, count: 2}
  - {app: stream, name: mine, vcpus: 2, l2_mpki: 40, memory_mib: 1024}
"""


@pytest.fixture
def mix_file(tmp_path):
    path = tmp_path / "small.yaml"
    path.write_text(SMP)
    return path


def test_compare_prints_json_alone_on_stdout(mix_file, capsys):
    code = main(
        ["compare", "--mix", str(mix_file), "--policies", "llc", "--runs", "2", "--draws", "2"]
        + ["--json"]
    )
    shown = json.loads(capsys.readouterr().out)
    assert code == 0
    assert shown["mix"] == "small"
    assert list(shown["policies"]) == ["baseline", "llc"]
    assert set(shown["policies"]["llc"]) == {
        "worst_degradation", "p95_worst", "spread", "memory_moves", "vcpu_moves", "cpu_used",
        "management_cpu_used", "pe", "applications",
    }  # fmt: skip
    assert set(shown["policies"]["llc"]["applications"]) == {"mcf-1", "mcf-2", "mine-1"}
    assert set(shown["policies"]["llc"]["applications"]["mine-1"]) == {
        "median", "worst", "vs_solo", "final_nodes",
    }  # fmt: skip
    assert len(shown["draws"]) == 2


def test_compare_tells_people_what_even_the_best_run_lost(mix_file, capsys):
    words = ["compare", "--mix", str(mix_file), "--policies", "llc", "--runs", "2"]
    assert main([*words, "--json"]) == 0
    policies = json.loads(capsys.readouterr().out)["policies"]
    assert main(words) == 0
    told = capsys.readouterr().out
    lost = [policies[name]["applications"]["mine-1"]["vs_solo"] for name in ("baseline", "llc")]
    assert min(lost) > 0.001
    rows = [line.replace("│", " ").split() for line in told.splitlines()]
    assert ["mine-1", *(f"{loss:.1%}" for loss in lost)] in rows


def test_compare_and_run_draw_what_they_found(mix_file, tmp_path, capsys):
    picture, timeline = tmp_path / "bars.png", tmp_path / "lines.png"
    arguments = ["--mix", str(mix_file), "--plot"]
    assert main(["compare", *arguments, str(picture), "--policies", "llc", "--runs", "2"]) == 0
    assert main(["run", *arguments, str(timeline), "--policy", "llc"]) == 0
    assert picture.read_bytes()[:4] == timeline.read_bytes()[:4] == b"\x89PNG"
    assert "mine-1" in capsys.readouterr().out


def test_apps_lists_every_figure_with_its_source(capsys):
    assert main(["apps"]) == 0
    told = capsys.readouterr().out
    assert "seed: 2.1.3" in told
    rows = [line.replace("│", " ").split() for line in told.splitlines()]
    shown = {(row[0], row[1], row[2], word) for row in rows for word in row[3:]}
    listed = {"machine": WESTMERE.figures(), **{name: row.figures() for name, row in ROWS.items()}}
    for name, figures in listed.items():
        for what, figure in figures.items():
            assert (name, what, f"{figure.value:g}", figure.source.split()[0]) in shown


def test_apps_cuts_no_name_and_tells_how_many_vms_each_is(capsys):
    assert main(["apps"]) == 0
    told = capsys.readouterr().out
    assert "…" not in told
    assert {"matrix-mult-uneven", "moving_stall_ratio"} <= set(told.split())
    assert ["voldemort", "2", "2"] in [
        line.replace("│", "").split()[:3] for line in told.splitlines()
    ]


@pytest.mark.needs_controllers("initial_placement", "merlin", "rebalance", "vp")
def test_many_policies_cut_neither_names_nor_numbers(tmp_path, capsys):
    path = tmp_path / "mix.yaml"
    path.write_text("applications: [{app: mcf, name: the-database-of-the-shop}]")
    words = [
        "compare",
        "--mix",
        str(path),
        "--runs",
        "1",
        "--policies",
        "llc,local,cheap,vp,merlin",
    ]
    assert main(words) == 0
    told = capsys.readouterr().out
    assert "the-database-of-the-shop-1" in told.split()
    assert "…" not in told


def test_run_says_what_it_ran_and_that_nothing_was_changed(mix_file, capsys):
    words = ["run", "--mix", str(mix_file), "--policy", "baseline", "--seed", "3"]
    assert main(words) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "small under baseline, start order 3" in told
    assert "No changes after the start." in told


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("applications: []", r"applications: there is nothing in it; add an entry"),
        ("{}", r"at the top: 'applications' is missing; add it"),
        ("applications:", r"applications: here is None; give a list"),
        ("applications: [mcf]", r"applications/0: here is 'mcf'; give named values in braces"),
        ('{"applications": [{"app": "mcf", "l2_mpki": NaN}]}', r"l2_mpki: here is 'NaN'; give a n"),
        ("applications: [{app: mcf, name: 2026-01-01}]", r"name: .*; give a text in quotes"),
        ("applications: [{app: mcf, initial_cores: 9}]", r"mcf-1 has 9 initial_cores .* 8 CPUs"),
        (
            "applications: [{app: mcf, least_ratio: 0.9, full_ratio: 0.5}]",
            r"mcf-1 has a least_ratio of 0.9 above its full_ratio of 0.5: ",
        ),
        (
            "{machine: {memory_extent_mib: 1}, applications: [{app: mcf, count: 9}]}",
            r"36864 extents of 1 MiB: increase `memory_extent_mib`",
        ),
        (
            'applications: [{app: mcf, extra_specs: {"\\e[2J": x}}]',
            r"'\\x1b\[2J' is not a flavor key",
        ),
        ("applications: [{app: nobody}]", r"applications/0/app: 'nobody' is not one of .*mcf"),
        ("applications: [{app: mcf, count: 0}]", r"applications/0/count: 0 is less than"),
        ("applications: [{app: mcf}, {app: mcf}]", r"two .* named 'mcf-1': give one of"),
        ("applications: [{app: mcf, cores: 2}]", r"applications/0: .*'cores'"),
        ("{machine: {nodes: 1}, applications: [{app: mcf, count: 9}]}", r"36864 MiB .* 32768"),
        ("{machine: {cores_per_domain: 2}, applications: [{app: stream}]}", r"4 vCPUs .* 2 CPUs"),
        ("[", r"neither YAML nor JSON"),
        ("just words", r"at the top: not a mix: start with"),
        ("applications: [{app: mcf, half_mib: 0}]", r"applications/0/half_mib: 0 is less than"),
        ("applications: [{app: mcf, l2_mpki: .nan}]", r"line 1: \.nan is not a finite number"),
        (
            "{machine: {node_gbps: .inf}, applications: [{app: mcf}]}",
            r"line 1: \.inf is not a finite number",
        ),
        ("applications: [{app: mcf, count: 2.0}]", r"count: here is 2.0; give a whole number"),
        (
            "applications: [{app: mcf, l2_mpki: " + 5000 * "9" + "}]",
            r"line 1: 9{20}… is not a whole number of a usual size",
        ),
        (
            "{machine: {page_copy_ns: 0}, applications: [{app: mcf}]}",
            r"page_copy_ns: 0 is less than",
        ),
        ('applications: [{app: mcf, name: "a\\n"}]', r"'a\\n': use up to 64 letters"),
        (
            "applications: [{app: mcf}]\napplications: [{app: lbm}]",
            r"line 2: applications is given twice",
        ),
        ("applications: [{app: mcf, count: 1, count: 2}]", r"line 1: count is given twice"),
        ("applications: [{app: mcf, name: '[/b]'}]", r"'\[/b\]': use up to 64 letters"),
        ("a: &a [mcf]\napplications: *a", r"line 2: aliases are not allowed; write"),
        ("[" * 100_000, r"neither YAML nor JSON: nested too deeply"),
        ("[" * 200 + "]" * 200, r"at the top: not a mix"),
        ("x" * 2_000_000, r"larger than 1 MiB"),
        ("{machine: {nodes: 99, cores_per_domain: 99}, applications: [{app: mcf}]}", r"9801 CPUs"),
        ("applications: [{app: mcf, count: 99, guests: 9}]", r"891 VMs: use at most 200"),
        ("name: !!bool perhaps", r"a value is not what its tag says"),
        ("name: !!timestamp soon", r"a value is not what its tag says"),
        ("name: !!int x", r"line 1: x is not a whole number"),
        ("name: !!int ''", r"a value is not what its tag says"),
        ("applications: !!python/object/apply:os.system [id]", r"could not determine a constr"),
    ],
)
def test_a_wrong_file_is_told_where_and_what(tmp_path, text, said):
    path = tmp_path / "wrong.yaml"
    path.write_text(text)
    with pytest.raises(BadMix, match=said):
        read_mix(path)


def test_a_file_that_is_no_text_is_told(tmp_path):
    path = tmp_path / "noise"
    path.write_bytes(b"\xe0\x00\xff" * 100)
    with pytest.raises(BadMix, match="neither YAML nor JSON"):
        read_mix(path)


def test_the_name_of_a_file_is_no_markup(tmp_path, capsys):
    path = tmp_path / "a[bold]$x$.yaml"
    path.write_text("applications: [{app: mcf}]")
    assert read_mix(path).name == "a_bold__x_"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--plot", "x.foo"], "use a name that ends in one of .png, .svg, .pdf"),
        (["--plot", "/no/such/folder/x.png"], "/no/such/folder is not a directory"),
        (["--runs", "0"], "whole number from 1 to"),
        (["--runs", "many"], "whole number from 1 to"),
        (["--runs", "9999999999"], "whole number from 1 to"),
        (["--plot", "/proc/x.png"], "/proc: No such file or directory; name a directory that you"),
    ],
)
def test_what_cannot_be_done_is_told_before_the_runs(mix_file, capsys, words, said):
    with pytest.raises(SystemExit):
        main(["compare", "--mix", str(mix_file), *words])
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seed", "-1"], "whole number, 0 or more"),
        (["--seed", "9" * 5000], "whole number, 0 or more"),
        (["--save-placement", "/proc/x"], "/proc: No such file or directory; name a directory"),
    ],
)
def test_what_a_run_cannot_do_is_told_before_it(mix_file, capsys, words, said):
    with pytest.raises(SystemExit):
        main(["run", "--mix", str(mix_file), *words])
    assert said in capsys.readouterr().err


def test_a_device_or_a_pipe_is_never_replaced_by_a_file(mix_file, tmp_path, capsys):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(SystemExit):
        main(["run", "--mix", str(mix_file), "--save-placement", str(pipe)])
    assert "is not a regular file; give another name" in capsys.readouterr().err
    assert pipe.is_fifo()


@pytest.fixture
def started():
    """Starts the command as a process of its own, which ends with the test."""
    with contextlib.ExitStack() as stack:

        def start(*words, **pipes):
            process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, *words], stderr=subprocess.PIPE, text=True, **pipes
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            return process

        yield start


@pytest.mark.needs_controllers("initial_placement", "rebalance", "vp")
def test_a_full_disk_is_told_in_a_line(mix_file, started):
    with open("/dev/full", "w") as full:
        process = started("run", "--mix", str(mix_file), stdout=full)
        _, said = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, said) == (1, "vp-sim: standard output: No space left on device\n")


def test_what_was_found_is_saved_although_nobody_reads_the_results(mix_file, tmp_path, started):
    placement, picture = tmp_path / "placement.json", tmp_path / "x.svg"
    words = ("run", "--mix", str(mix_file), "--policy", "baseline")
    with open("/dev/full", "w") as full:
        files = ("--save-placement", str(placement), "--plot", str(picture))
        process = started(*words, *files, stdout=full)
        _, said = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, said) == (
        1,
        "vp-sim: standard output: No space left on device\n",
    )
    assert json.loads(placement.read_text())["applications"].keys() == {"mcf-1", "mcf-2", "mine-1"}
    assert picture.exists()


def in_a_shell(before, *words, after=""):
    command = shlex.join([sys.executable, "-c", PROGRAM, *words])
    return subprocess.run(
        ["sh", "-c", f"{before} exec {command} {after}"],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


def test_a_closed_standard_output_is_told_in_a_line(mix_file):
    for words in (["run", "--mix", str(mix_file), "--policy", "baseline"], ["apps"]):
        done = in_a_shell("", *words, after=">&-")
        said = "vp-sim: standard output is closed; redirect it to a file\n"
        assert (done.returncode, done.stderr) == (1, said)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="argparse hides it since Python 3.12")
def test_help_to_a_full_disk_is_told_in_a_line(started):
    with open("/dev/full", "w") as full:
        process = started("run", "--help", stdout=full)
        _, said = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, said) == (1, "vp-sim: standard output: No space left on device\n")


def test_a_folder_is_no_picture(mix_file, tmp_path, capsys):
    (tmp_path / "x.png").mkdir()
    with pytest.raises(SystemExit):
        main(["run", "--mix", str(mix_file), "--plot", str(tmp_path / "x.png")])
    assert "x.png is a directory" in capsys.readouterr().err


def test_a_picture_that_cannot_be_written_leaves_the_one_before_and_nothing_else(
    mix_file, tmp_path
):
    picture = tmp_path / "out" / "x.png"
    picture.parent.mkdir()
    picture.write_bytes(b"the one before")
    words = ("run", "--mix", str(mix_file), "--policy", "baseline", "--plot", str(picture))
    done = in_a_shell("ulimit -f 8;", *words)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"vp-sim: {picture}: File too large"
    assert [one.read_bytes() for one in picture.parent.iterdir()] == [b"the one before"]


def test_where_nobody_watches_compare_says_nothing_but_results(mix_file, started):
    process = started(
        *("compare", "--mix", str(mix_file), "--policies", "llc", "--runs", "1", "--json"),
        stdout=subprocess.PIPE,
    )
    results, said = process.communicate(timeout=DEADLINE_S)
    assert (process.returncode, said) == (0, "")
    assert json.loads(results)["mix"] == "small"


def workers_of(process):
    return Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()


@pytest.mark.needs_controllers("initial_placement", "rebalance", "vp")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_it_at_once_with_a_line(mix_file, started, number):
    """Also while the workers are still beginning."""
    process = started("compare", "--mix", str(mix_file), "--runs", "100000")
    wait_until(lambda: len(workers_of(process)) > 1, "workers")
    workers = workers_of(process)
    process.send_signal(number)
    _, said = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 130
    assert said.strip() == "vp-sim: interrupted, no result"
    wait_until(lambda: not any(is_running(pid) for pid in workers), "their end")


@pytest.mark.needs_controllers("initial_placement", "rebalance", "vp")
def test_workers_do_not_outlive_who_asked_them(mix_file, started):
    process = started("compare", "--mix", str(mix_file), "--runs", "100000")
    wait_until(lambda: len(workers_of(process)) > 1, "workers")
    workers = workers_of(process)
    process.kill()
    process.communicate(timeout=DEADLINE_S)
    wait_until(lambda: not any(is_running(pid) for pid in workers), "their end")


def is_running(pid):
    try:
        return ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def test_wrong_words_end_with_a_line_on_stderr(capsys):
    assert main(["compare", "--mix", "no-such-mix"]) == 2
    assert main(["run", "--mix", "merlin", "--policy", "luck"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "stream-spec" in printed.err
    assert "'luck' is not a policy" in printed.err


def test_a_file_may_be_json_and_what_it_says_is_used(tmp_path):
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"applications": [{"app": "lbm", "l2_mpki": 5, "priority": 2}]}))
    (member,) = find_mix(str(path)).members
    assert member.row.l2_mpki.value == 5
    assert member.row.l2_mpki.source.startswith("given")
    assert member.priority == 2


@pytest.mark.parametrize(
    "entries",
    [
        [{"app": "mcf", "l2_mpki": 30}, {"app": "mcf", "name": "other"}],
        [{"app": "mcf", "name": "stream", "l2_mpki": 30}, {"app": "stream", "name": "other"}],
    ],
)
def test_an_application_keeps_its_figures_whoever_else_is_made_of_the_same_row(tmp_path, entries):
    path = tmp_path / "two.json"
    path.write_text(json.dumps({"applications": entries}))
    world = world_of(find_mix(str(path)))
    first, other = (world.apps[member.row.name] for member in world.mix.members)
    assert (first.l2_mpki, other.l2_mpki) == (30, ROWS[entries[1]["app"]].l2_mpki.value)


def test_a_flavor_key_that_no_controller_has_is_refused(tmp_path):
    path = tmp_path / "one.json"
    app = {"app": "lbm", "extra_specs": {"vp:priority": "2"}}
    path.write_text(json.dumps({"applications": [app]}))
    with pytest.raises(
        BadMix, match="'vp:priority' is not a flavor key of an installed controller"
    ):
        find_mix(str(path))
