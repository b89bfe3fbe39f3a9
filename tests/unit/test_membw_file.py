# SPDX-License-Identifier: Apache-2.0
"""What the agent tells of the memory's load: a mean of ticks in which every server was counted."""

import os
from pathlib import Path

import pytest

from nova_vp.service.run_dir import LOAD, Load, NoLoad, is_agent_running, read_load
from tests.unit.agent_host import World
from tests.unit.core.build import COMPUTE, STREAM
from vp_agent.drivers.counters_none import NoCounters
from vp_agent.loop.control_socket import RunFolder
from vp_agent.publish.membw_file import MEAN_S, TELL_EVERY_S, MembwFile

STREAM_BYTES_PER_S = STREAM.mips * 1e6 * STREAM.mpki / 1000 * 64


class Telling:
    """An agent whose every tick is told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.world = World(folder / "state")
        self.world.start_agent()
        self.teller = MembwFile(folder, "fake", clock=lambda: self.world.now_s)

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            self.world.tick()
            self.teller.tell(self.world.control.last())

    def told(self) -> Load:
        return read_load(self.folder)

    def bytes_per_s(self) -> float:
        return sum(node.bytes_per_s for node in self.told().nodes)


@pytest.fixture
def telling(tmp_path: Path) -> Telling:
    return Telling(tmp_path)


def test_every_node_has_the_traffic_of_the_servers_whose_memory_lies_there(telling) -> None:
    telling.world.boot(STREAM)
    telling.tick(10)
    assert telling.bytes_per_s() == pytest.approx(STREAM_BYTES_PER_S, rel=0.05)
    assert [node.node for node in telling.told().nodes] == [0, 1]
    assert telling.told().source == "fake"


def test_a_load_that_changes_is_followed_within_a_minute(telling) -> None:
    uuid = telling.world.boot(COMPUTE)
    telling.tick(60)
    assert telling.bytes_per_s() < 0.01 * STREAM_BYTES_PER_S
    telling.world.rates[uuid] = STREAM
    telling.tick(int(MEAN_S))
    assert 0.4 * STREAM_BYTES_PER_S < telling.bytes_per_s() < 0.8 * STREAM_BYTES_PER_S
    telling.tick(60)
    assert telling.bytes_per_s() == pytest.approx(STREAM_BYTES_PER_S, rel=0.05)


def test_ticks_in_which_a_server_is_not_counted_are_left_out(telling) -> None:
    telling.world.boot(STREAM)
    telling.tick(30)
    before = telling.bytes_per_s()
    lost = telling.world.boot(STREAM)
    telling.world.counters.degrade(lost, 0, 0.0, "its counters cannot be read")
    telling.tick(20)
    assert telling.bytes_per_s() == before
    assert telling.told().age_s > 15


def test_nothing_is_told_before_anything_is_known(telling) -> None:
    telling.teller.tell(None)
    with pytest.raises(NoLoad, match="is vp-agent running"):
        telling.told()


def test_numbers_of_a_host_that_is_away_grow_old(telling) -> None:
    telling.tick(10)
    decision = telling.world.control.last()
    for _ in range(40):
        telling.world.now_s += 1
        telling.teller.tell(decision)
    with pytest.raises(NoLoad, match=r"3\d s old"):
        telling.told()


def test_a_host_without_counters_says_so(tmp_path: Path) -> None:
    telling = Telling(tmp_path)
    telling.teller = MembwFile(tmp_path, NoCounters("").name, clock=lambda: 0.0)
    telling.tick()
    with pytest.raises(NoLoad, match="no counter source"):
        telling.told()


def test_a_folder_that_refuses_is_said_once_and_costs_no_tick(telling, caplog) -> None:
    (telling.folder / f"{LOAD}.new").mkdir()
    telling.tick(3 * int(TELL_EVERY_S))
    assert sum("not published to nova-compute" in r.getMessage() for r in caplog.records) == 1


def test_an_agent_that_ends_takes_its_numbers_with_it(telling) -> None:
    telling.tick(5)
    telling.teller.forget()
    assert not (telling.folder / LOAD).exists()


def test_a_running_agent_is_seen_by_its_lock_and_nobody_is_kept_from_it(tmp_path: Path) -> None:
    assert not is_agent_running(tmp_path)
    old = os.umask(0o077)
    try:
        with RunFolder(str(tmp_path)).locked():
            assert is_agent_running(tmp_path)
    finally:
        os.umask(old)
    assert not is_agent_running(tmp_path)
    assert (tmp_path / "agent.lock").stat().st_mode & 0o777 == 0o644
    with RunFolder(str(tmp_path)).locked():
        assert is_agent_running(tmp_path)
