# SPDX-License-Identifier: Apache-2.0
"""CPUs that an overlay borrowed over the real agent and real libvirt, and what ends that.

The host has four CPUs in two islands, by the lab's shim: pins are recorded, and the CPUs need not
be there. `web` borrows; in the other island `mill` uses a whole CPU as soon as it goes on.
"""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from nova_vp.core.types.overlay import Overlay
from nova_vp.cpuset import parse_cpus
from testbed.lab import settings
from tests.bench.paced_guests import SHIM
from tests.domain_xml import PROJECT_ID, a_domain, nova_metadata, write_endless, write_halting
from tests.host_subjects import LibvirtSubject
from tests.libvirt_host import LibvirtHost, missing_for_libvirt
from tests.overlay_agent import OverlayAgent
from tests.waiting import wait_until
from vp_agent.drivers.journal_entry import NAMESPACE

SHOP, MILLS = (f"00000000-0000-4000-8000-00000000000{n}" for n in "ab")
LOW, HIGH, CPUS = frozenset({0, 1}), frozenset({2, 3}), 4


@pytest.fixture(scope="module")
def four_cpus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LibvirtHost]:
    if missing := missing_for_libvirt():
        pytest.skip(missing)
    shim = ["make", "-s", "-C", str(settings.LAB / "shim"), f"OUT={SHIM}"]
    subprocess.run(shim, check=True)
    folder = tmp_path_factory.mktemp("borrow")
    host = LibvirtHost(folder, env=modelled(folder), cells="0-1+2-3", preload=SHIM)
    try:
        yield host.start()
    finally:
        host.stop()


def modelled(folder: Path) -> dict[str, str]:
    records = folder / "records"
    records.mkdir(mode=0o777, exist_ok=True)
    return {"NUMA_SHIM_VPMU": str(records), "NUMA_SHIM_MODELLED_CPUS": str(CPUS)}


class Islands:
    def __init__(self, host: LibvirtHost, folder: Path) -> None:
        self.subject = LibvirtSubject(host)
        self._env = {**modelled(host.folder), "LD_PRELOAD": str(SHIM)}
        halting = write_halting(folder / "halting.bin")
        self.web = self._boot("instance-00000001", halting, LOW)
        self.mill = self._boot("instance-00000002", write_endless(folder / "endless.bin"), HIGH)
        self.subject.suspend(self.mill)
        self.before = {uuid: self.standing(uuid) for uuid in (self.web, self.mill)}
        self.agent = OverlayAgent(host, folder, self._env)
        shop = Overlay(SHOP, "shop", PROJECT_ID, frozenset({self.web}))
        mills = Overlay(MILLS, "mills", PROJECT_ID, frozenset({self.mill}))
        self.agent.tell(shop, mills)

    def _boot(self, name: str, firmware: Path, cpus: frozenset[int]) -> str:
        metadata = nova_metadata(extra_specs={"vp:cpu_floor": "10"})
        xml = a_domain(name, vcpus=1, cpuset="0-3", metadata=metadata, firmware=firmware)
        uuid = str(self.subject.host.boot(xml, is_persistent=True).UUIDString())
        self.subject.adopt(uuid)
        [tid] = self.subject.tids(uuid)
        self._shimmed("taskset", "-cp", ",".join(map(str, sorted(cpus))), str(tid))
        return uuid

    def _shimmed(self, *argv: str) -> str:
        command = ["env", *(f"{name}={value}" for name, value in self._env.items()), *argv]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def cpus(self, uuid: str) -> frozenset[int]:
        [tid] = self.subject.tids(uuid)
        return parse_cpus(self._shimmed("taskset", "-cp", str(tid)).rpartition(": ")[2].strip())

    def standing(self, uuid: str) -> tuple[frozenset[int], int, bool]:
        has_journal = NAMESPACE in self.subject.live_xml(uuid)
        return self.cpus(uuid), self.subject.weight(uuid).number, has_journal

    def start(self) -> None:
        self.agent.start(
            lambda: all("reserved" in self.subject.live_xml(uuid) for uuid in self.before)
        )

    def borrow(self) -> None:
        """The agent must have measured both."""
        wait_until(
            lambda: self.agent.call("borrow", self.web, SHOP, cpus=1, lease_s=60) == "",
            "a CPU is lent",
        )
        assert len(self.cpus(self.web) - LOW) == 1
        assert self.cpus(self.mill) == HIGH - self.cpus(self.web)

    def is_back(self) -> bool:
        return self.cpus(self.web) == LOW and self.cpus(self.mill) == HIGH

    def check_nothing_is_left(self) -> None:
        assert {uuid: self.standing(uuid) for uuid in self.before} == self.before

    def close(self) -> None:
        self.agent.close()
        self.subject.close()


@pytest.fixture
def islands(four_cpus: LibvirtHost, tmp_path: Path) -> Iterator[Islands]:
    with ExitStack() as stack:
        stack.callback(four_cpus.destroy_all)
        islands = Islands(four_cpus, tmp_path)
        stack.callback(islands.close)
        islands.start()
        yield islands


def test_a_borrowed_cpu_goes_back_by_release(islands):
    islands.borrow()
    assert islands.agent.call("borrow", islands.web, SHOP, cpus=2) == "no-room"
    assert islands.agent.call("release", None, SHOP) == ""
    assert islands.is_back()
    assert islands.agent.stop() == 0
    islands.check_nothing_is_left()


def test_of_an_agent_that_is_killed_meanwhile_the_timer_gives_it_back(islands):
    islands.borrow()
    islands.agent.kill()
    assert not islands.is_back()
    islands.agent.release_expired()
    islands.check_nothing_is_left()


def test_the_next_agent_gives_back_what_a_killed_one_lent(islands):
    islands.borrow()
    islands.agent.kill()
    islands.start()
    wait_until(islands.is_back, "all run where they ran")
    assert islands.agent.stop() == 0
    islands.check_nothing_is_left()


def test_a_lender_that_needs_its_cpu_gets_it_back(islands):
    islands.borrow()
    islands.subject.resume(islands.mill)
    wait_until(islands.is_back, "the lender has its CPU", 60.0)
    assert islands.agent.stop() == 0
    islands.check_nothing_is_left()


@pytest.mark.parametrize("who", ["web", "mill"])
def test_a_loan_ends_with_whom_it_is_for_and_outlives_its_lender(islands, who):
    islands.borrow()
    ended = getattr(islands, who)
    left = next(uuid for uuid in islands.before if uuid != ended)
    islands.subject.end(ended)
    if who == "web":
        wait_until(lambda: islands.cpus(left) == HIGH, "the lender has its CPU")
    # The mill is no member: no vp-scheduler is there to ask whether it is one elsewhere.
    nacks = {"web": ("not-a-member", "host-refused"), "mill": ("unreachable",)}
    assert islands.agent.call("borrow", ended, SHOP, cpus=1) in nacks[who]
    assert islands.agent.stop() == 0
    assert islands.standing(left) == islands.before[left]
