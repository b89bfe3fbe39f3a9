# SPDX-License-Identifier: Apache-2.0
"""A running libvirt guest's memory is moved between nodes while it writes all of it.

By the mover that `vp-agent` opens at its defaults. The guest itself says whether a page was lost or
torn and how long it ever stood still; the kernel's numa_maps say where its pages lie.
"""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from oslo_config import cfg

from nova_vp import conf as options
from nova_vp.core.types.knob import Applied, Held, Knob
from tests.domain_xml import a_domain
from tests.memory_subjects import over
from tests.numa.writer import MEMORY_MIB, WriterGuest
from tests.waiting import wait_until
from vp_agent import wiring
from vp_agent.drivers.base import ApplyFailed
from vp_agent.drivers.connection import Connection
from vp_agent.drivers.domains import Domains
from vp_agent.drivers.journal import LibvirtJournal
from vp_agent.loop.executor import Executor

PAGES = MEMORY_MIB * 256
CHUNK_PAGES = 1024
NEAR, FAR = 0, 2
HERE, THERE = ((NEAR, 1.0),), ((FAR, 1.0),)
BOUND = range(8)
MOST_PAUSE_MS = 2000
PACE_KIB_PER_S = 64 * 1024.0
CONFIG = """\
[agent]
libvirt_uri = {uri}
state_directory = {folder}/state
run_directory = {folder}/agent-run
"""


def a_conf(text_path: Path | None = None) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    conf([], default_config_files=[str(text_path)] if text_path else [])
    return conf


class Mine:
    """The agent's side of the host: what it opens by default."""

    def __init__(self, numa_host) -> None:
        self._connection = Connection(numa_host.uri)
        self.domains = Domains(self._connection, numa_host.run_directory)
        self.journal = LibvirtJournal(self.domains)
        self.mover = wiring.open_mover(a_conf(), self.domains)
        self.executor = Executor(self.journal, wiring.by_knob(self.mover), epoch=7)

    def close(self) -> None:
        self.mover.close()
        self._connection.close()


@pytest.fixture
def mine(numa_host) -> Iterator[Mine]:
    mine = Mine(numa_host)
    yield mine
    mine.close()


@pytest.fixture(scope="module")
def writer(numa_host):
    """One for all: it takes a while to fill its memory."""
    writer = WriterGuest(numa_host)
    writer.boot(first_cpus={2 * NEAR, 2 * NEAR + 1}, bound=BOUND)
    yield writer
    numa_host.destroy_all()


@pytest.fixture
def uuid(mine, writer):
    """Of the writing guest, all of whose pages lie on NEAR."""
    uuid = writer.domain.UUIDString()
    mine.mover.restore(uuid, Held(Knob.MEMORY, HERE, HERE, "", ""))
    mine.mover.moves()
    assert writer.pages_by_node().get(NEAR, 0) >= 0.99 * PAGES
    return uuid


def share_on(writer, node):
    pages = writer.pages_by_node()
    return pages.get(node, 0) / sum(pages.values())


def assert_unharmed(writer):
    """Every page that was written before has been checked since."""
    said = writer.wait_until_all_is_checked()
    print(f"longest pause {said.longest_ever_ms} ms, {said.wrong} pages wrong")
    assert said.wrong == 0
    assert said.longest_ever_ms <= MOST_PAUSE_MS


def begin(mine, uuid, shares=THERE):
    """Half-way, as an agent that journals what it does."""
    held = Held(Knob.MEMORY, shares, HERE, "mitigation", "mitigation-1")
    mine.mover.set_copy_rates({uuid: PACE_KIB_PER_S})
    mine.journal.write(Applied(uuid, 7, (held,)))
    mine.mover.apply(uuid, Knob.MEMORY, shares)
    half_kib = PAGES * 4 // 2
    wait_until(lambda: mine.mover.moves()[uuid].moved_kib > half_kib, "half of the way", 300)
    return held


def test_it_moves_in_chunks_between_two_nodes_and_the_guest_goes_on(mine, writer, uuid):
    before = writer.pages_by_node()
    mine.mover.apply(uuid, Knob.MEMORY, THERE)
    told = [mine.mover.moves()[uuid]]
    while not told[-1].is_over:
        wait_until(lambda: is_further(mine, uuid, told), "the next chunk", 300)
    after = writer.pages_by_node()
    print(f"pages by node {before} -> {after}, {told[-1]}, seen at {len(told)} borders of chunks")
    assert told[-1].problem == ""
    assert len(told) > 20
    assert after.get(FAR, 0) >= 0.99 * PAGES
    assert share_on(writer, FAR) > 0.999
    assert_unharmed(writer)


def is_further(mine, uuid, told):
    seen = mine.mover.moves()[uuid]
    if seen == told[-1]:
        return False
    told.append(seen)
    return True


def test_a_split_of_one_quarter_to_three(mine, writer, uuid):
    mine.mover.apply(uuid, Knob.MEMORY, ((NEAR, 0.25), (FAR, 0.75)))
    assert over(mine, uuid).problem == ""
    assert share_on(writer, FAR) == pytest.approx(0.75, abs=0.02)
    assert share_on(writer, NEAR) == pytest.approx(0.25, abs=0.02)
    assert_unharmed(writer)


def test_aborted_half_way_it_is_undone(mine, writer, uuid):
    held = begin(mine, uuid)
    mine.mover.abort(uuid, "an operator said so")
    assert over(mine, uuid).problem == "an operator said so"
    half = writer.pages_by_node()
    assert min(half.get(NEAR, 0), half.get(FAR, 0)) > 0.05 * PAGES
    mine.mover.restore(uuid, held)
    print(f"pages by node {half} -> {writer.pages_by_node()}")
    assert writer.pages_by_node().get(NEAR, 0) >= 0.99 * PAGES
    assert share_on(writer, NEAR) > 0.999
    assert_unharmed(writer)


def test_release_brings_back_what_an_agent_left_half_way(mine, writer, uuid, numa_host, tmp_path):
    begin(mine, uuid)
    mine.mover.close()  # As dead as it can be within this process.
    assert share_on(writer, NEAR) < 0.9
    for name in ("state", "agent-run"):
        (tmp_path / name).mkdir()
    (tmp_path / "state/epoch").write_text("7")
    config = tmp_path / "nova-vp.conf"
    config.write_text(CONFIG.format(uri=numa_host.uri, folder=tmp_path))
    command = ["vp-agent", "--config-file", str(config), "release"]
    done = subprocess.run(
        [*numa_host.inside(), *command], capture_output=True, text=True, timeout=600
    )
    print(done.stdout, done.stderr)
    assert done.returncode == 0
    assert f"restored {uuid}" in done.stdout
    assert f"vp={uuid} its memory goes back:" in done.stderr
    assert share_on(writer, NEAR) > 0.999
    assert mine.domains.reread(uuid).applied is None
    assert_unharmed(writer)


def test_a_guest_whose_memory_libvirt_locked_is_refused(mine, numa_host):
    body = "<memoryBacking><locked/></memoryBacking>"
    domain = numa_host.boot(a_domain("locked", memory_mib=64, cpuset="0-7", body=body))
    try:
        with pytest.raises(ApplyFailed, match="its memory is locked"):
            mine.mover.apply(domain.UUIDString(), Knob.MEMORY, THERE)
        assert mine.mover.moves() == {}
    finally:
        domain.destroy()


def test_a_guest_that_ends_on_the_way_ends_its_move(mine, writer, uuid):
    begin(mine, uuid)
    writer.domain.destroy()
    assert "has ended or was restarted" in over(mine, uuid).problem
