# SPDX-License-Identifier: Apache-2.0
"""`vp-agent top`: what it shows of a host, alone and beside an agent, on a real terminal and for
programs; and what it says where it cannot."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nova_vp import wire
from nova_vp.cli import screen
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.state import CoreState
from tests.terminal import ENDED, Terminal, missing_for_terminal
from tests.unit.agent_host import World, a_hurt_pair
from tests.unit.core.build import COMPUTE, STREAM
from vp_agent.cli.top_view import BY_ITSELF, view
from vp_agent.drivers.base import HostUnavailable
from vp_agent.drivers.fake import FakeGuests, FakeJournal
from vp_agent.loop.control_socket import RunFolder, Server
from vp_agent.loop.standalone import ReadOnlyHost, Standalone
from vp_agent.publish.host_info import HostInfo
from vp_agent.publish.report import report

VP_AGENT = Path(sys.executable).with_name("vp-agent")
WIDTH = 100


class Onlooker:
    """Watches a world alone, in the place of an agent."""

    def __init__(self, world):
        world.agent = self
        host = ReadOnlyHost("here", FakeGuests(world.host), world.counters, FakeJournal(world.host))
        self._alone = Standalone(host, world.policy, CoreState())
        self.told = {}

    def tick(self, now_s):
        self.told = {**self._alone.look(now_s), "watched_by": BY_ITSELF}


@pytest.fixture
def world(tmp_path):
    return World(tmp_path / "state", mode=Mode.OBSERVE)


@pytest.fixture
def onlooker(world):
    return Onlooker(world)


@pytest.fixture
def shown(capsys):
    def show(told, gone=""):
        screen.print_once(view(told, gone))
        text = capsys.readouterr().out
        assert max(map(len, text.splitlines())) <= WIDTH, text
        return text

    return show


def rows_of(text):
    """Below the headings, by the first column."""
    lines = text.splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("SERVER"))
    return [line.split() for line in lines[start + 1 :]]


@pytest.mark.needs_controllers("vp")
def test_alone_it_sees_who_is_hurt_by_whom_and_what_an_agent_would_do(world, onlooker, shown):
    a_hurt_pair(world)
    world.tick(4)
    text = shown(onlooker.told)
    assert "no agent runs on this host: read-only view, nothing is changed" in text
    assert "an agent would apply: server-3 CPUs 0-3 -> 4-7: it degrades a neighbour" in text
    hurt, guilty, quiet = rows_of(text)
    assert " ".join(hurt) == "server-2 0-3 0.00 8 bulldog 0.87 67.0 268 k cache by server-3"
    assert " ".join(guilty) == "server-3 0-3 0.00 8 bulldog 1.00 45.0 1.35 M no"
    assert " ".join(quiet) == "server-1 4-7 0.00 0 pug 0.00 0.0 0 no"


def test_rates_have_no_powers_of_ten(world, onlooker, shown):
    world.boot(COMPUTE)
    world.tick(4)
    onlooker.told["vps"][0]["metrics"]["misses_per_s"] = 999_700.0
    [row] = rows_of(shown(onlooker.told))
    assert " ".join(row).endswith("1 M no")


@pytest.mark.needs_controllers("vp")
def test_alone_it_touches_nothing(world, onlooker):
    a_hurt_pair(world)
    before = {uuid: entry.guest for uuid, entry in world.host.guests.items()}
    world.tick(10)
    assert onlooker.told["proposals"]
    for uuid, entry in world.host.guests.items():
        assert entry.guest._replace(cpu_time_ns=0) == before[uuid]._replace(cpu_time_ns=0)
        assert entry.journal is None
    assert not list(world.folder.parent.iterdir())


def test_a_host_that_does_not_answer(world, onlooker):
    world.boot(COMPUTE)
    world.tick()
    world.host.is_up = False
    with pytest.raises(HostUnavailable):
        world.tick()


def test_what_is_older_is_said_to_be(world, onlooker, shown):
    world.boot(COMPUTE)
    world.tick(3)
    text = shown(onlooker.told, "libvirt at qemu:///system does not answer")
    assert "! showing the last sample: libvirt at qemu:///system does not answer" in text
    assert "server-1" in text


def test_a_host_without_servers(world, onlooker, shown):
    world.tick()
    assert "no server runs on this host" in shown(onlooker.told)


def test_an_agent_without_a_tick(shown):
    assert "no sample yet: check libvirt" in shown({"watched_by": "vp-agent"})


def test_a_problem_of_many_servers_is_told_once(world, onlooker, shown):
    for _ in range(4):
        world.boot(COMPUTE)
    world.tick(2)
    why = "perf: this user may not count others: " + "run it as root " * 6
    problems = [f"{vp['uuid']}: {why}" for vp in onlooker.told["vps"]]
    counters = {"source": "perf", "problems": ["host: no remote misses", *problems]}
    text = shown({**onlooker.told, "counters": counters})
    assert "! host: no remote misses" in text
    assert text.count("this user may not count others") == 1
    assert "! server-1, server-2 and 2 more: perf: this user" in text


def test_a_name_cannot_command_the_terminal(world, onlooker, shown):
    world.boot(COMPUTE, name="\x1b[2J\x1b]0;x\a[bold]\n" + "n" * 300)
    world.tick(2)
    text = shown(onlooker.told)
    assert "\x1b" not in text
    assert "\a" not in text
    (row,) = rows_of(text)
    assert row[0].startswith("?[2J?]0;x?[bold]?nn")


# On a terminal, and as a command of its own.


@pytest.fixture
def options(tmp_path):
    """Of a host on which nothing of the project is yet."""
    folders = {name: tmp_path / name for name in ("state", "run")}
    file = tmp_path / "vp.conf"
    file.write_text(
        "[agent]\ncounters = vpmu\nhost = here\n"
        f"libvirt_uri = qemu+unix:///system?socket={tmp_path}/no-libvirt\n"
        f"vpmu_directory = {tmp_path}/no-vpmu\n"
        f"state_directory = {folders['state']}\nrun_directory = {folders['run']}\n"
    )
    return ["--config-file", str(file)]


@pytest.fixture
def agent(world, options, tmp_path):
    """A running one, as far as its socket goes; it ticks when the world does."""
    folder = RunFolder(str(tmp_path / "run"))
    world.start_agent()
    with folder.locked():
        a_hurt_pair(world)
        yield Server(folder, world.control, lambda: seen_by(world), world.recorder.order)


@pytest.fixture
def answering(agent):
    yield agent
    agent.close()


def seen_by(world):
    facts = HostInfo("here", "fake", "fake", is_homing=False, epoch_offset_s=0.0)
    return report(world.control.last(), facts, wire.MessageVersion(0, 0))


def ran(*command, prefix=()):
    return subprocess.run(
        [*prefix, VP_AGENT, *command], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.skipif(missing_for_terminal() is not None, reason=str(missing_for_terminal()))
def test_a_terminal_beside_an_agent(world, options, answering):
    with Terminal([VP_AGENT, *options, "top", "--interval", "0.2"], rows=12) as terminal:
        first = terminal.wait_for("server-2")
        assert first.startswith("here  mode observe (no mode is set)  counters fake")
        assert "by itself" not in first
        world.tick(4)
        rows = rows_of(terminal.wait_for("by server-3"))
        assert [row[0] for row in rows[:3]] == ["server-2", "server-3", "server-1"]
        for _ in range(9):
            world.boot(STREAM)
        world.tick(4)
        crowded = terminal.wait_for("more: enlarge the window").splitlines()
        assert len(crowded) <= 12
        assert max(map(len, crowded)) <= WIDTH
        terminal.press("q")
        assert "server-2" not in terminal.wait_for(f"{ENDED}: 0")


@pytest.mark.skipif(missing_for_terminal() is not None, reason=str(missing_for_terminal()))
def test_an_agent_that_ends_meanwhile(options, agent):
    with Terminal([VP_AGENT, *options, "top", "--interval", "0.2"]) as terminal:
        terminal.wait_for("server-2")
        agent.close()
        assert "server-2" in terminal.wait_for("showing the last sample: no agent answers")
        terminal.press("C-c")
        terminal.wait_for(f"{ENDED}: 0")


def test_programs_beside_an_agent(options, answering):
    once = ran(*options, "top", "--once", "-f", "json")
    told = json.loads(once.stdout)
    assert told["watched_by"] == "vp-agent"
    assert len(told["vps"]) == 3
    table = ran(*options, "top", "--once").stdout
    assert {row[0] for row in rows_of(table)} == {"server-1", "server-2", "server-3"}
    stream = subprocess.Popen(
        [VP_AGENT, *options, "top", "-f", "json", "--interval", "0.2"], stdout=subprocess.PIPE
    )
    lines = [json.loads(stream.stdout.readline()) for _ in range(2)]
    stream.stdout.close()
    assert [len(line["vps"]) for line in lines] == [3, 3]
    assert stream.wait(timeout=20) == 0


@pytest.mark.parametrize(
    ("name", "said"),
    [("agent.sock", "only its user and root can use"), ("agent.lock", "cannot read")],
)
def test_an_agent_that_is_another_users(options, answering, tmp_path, name, said):
    (tmp_path / "run" / name).chmod(0)
    refused = ran(*options, "top", "--once", prefix=WITHOUT_OVERRIDE)
    assert refused.returncode == 1
    assert said in refused.stderr
    assert "run this command as root" in refused.stderr


WITHOUT_OVERRIDE = (
    ("setpriv", "--bounding-set", "-dac_override,-dac_read_search", "--inh-caps", "-all")
    if os.geteuid() == 0
    else ()
)
"""As a user whom file modes bind, root too."""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--once"], "check that libvirtd runs and that this user may connect (group libvirt)"),
        (["--interval", "9"], "'9' is not an interval: use 0.2 to 5 seconds"),
        (["-f", "xml"], "invalid choice: 'xml'"),
    ],
)
def test_errors_say_what_to_do(options, arguments, said):
    refused = ran(*options, "top", *arguments)
    assert refused.returncode != 0
    assert said in " ".join(refused.stderr.split())
    assert "Traceback" not in refused.stderr


def test_a_server_explained_beside_an_agent(options, answering):
    told = ran(*options, "explain", "server-2")
    assert told.stdout.startswith("server-2 (00000000-"), told.stderr
    assert "Degraded  No." in told.stdout
    unknown = ran(*options, "explain", "nobody")
    assert unknown.returncode == 1
    assert "no server on this host is named 'nobody': give the id of one of" in unknown.stderr


def test_a_live_view_needs_a_terminal(options, answering):
    refused = ran(*options, "top")
    assert refused.returncode == 1
    assert "needs a terminal: use --once (vp-agent top also has -f json)" in refused.stderr


def test_what_is_not_installed_is_named():
    code = "import sys; sys.modules['libvirt'] = None; from vp_agent.cli.start import main; main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert "the Python package of 'libvirt' is not installed" in done.stderr
    assert "pip install '.[agent]'" in done.stderr
    assert "Traceback" not in done.stderr
