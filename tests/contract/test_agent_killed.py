# SPDX-License-Identifier: Apache-2.0
"""Undo, with the real agent and real libvirt: killed anywhere, stopped, or overtaken by events, it
leaves every guest as Nova made it.

What is applied here is homing on a host of two LLC domains, in mode enforce; and a cap on every
guest, by a controller of the tests.
"""

import os
import re
import signal
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import libvirt
import pytest

from nova_vp.core.types.knob import NO_QUOTA, Quota
from tests.domain_xml import a_domain, nova_metadata, write_halting
from tests.killable_agent import CAP, Agents, Death
from tests.libvirt_host import LibvirtHost, missing_for_libvirt
from tests.waiting import wait_until
from vp_agent.drivers.cgroups import cpu_group, read_quota
from vp_agent.drivers.journal_entry import NAMESPACE
from vp_agent.drivers.vcpu_threads import read_emulator_affinity, read_tids

BOTH = frozenset({0, 1})
TUNED = {
    False: ("cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.shares", "cpuset.cpus"),
    True: ("cpu.max", "cpu.weight", "cpuset.cpus"),
}
"""By whether the hierarchy is the unified one."""
LONG_S = 60.0
CONFIG = """\
[agent]
host = test
mode = enforce
actuator = {actuator}
interval_s = 0.1
state_directory = {folder}/state
run_directory = {folder}/run
vpmu_directory = {folder}/none
[controller_initial_placement]
home_on_arrival = {homing}
[bus]
transport_url = fake:/
"""

BEFORE_AFTER = ("before", "after")
# The second of two vCPUs: the first has moved already.
WHILE_PLACING = [
    *(Death(when, call) for call in ("journal", "apply") for when in BEFORE_AFTER),
    Death("before", "vcpu", 2),
]
WHILE_UNDOING = [
    *(Death(when, call) for call in ("restore", "drop") for when in BEFORE_AFTER),
    Death("before", "vcpu", 2),
]
# The first journal and the first action are the placement's.
WHILE_CAPPING = [
    *(Death(when, call, 2) for call in ("journal", "apply") for when in BEFORE_AFTER),
    Death("after", "quota"),  # by the actuator `kernel`: of the first of two vCPUs
]
WHILE_LIFTING = [*(Death(when, "restore", 2) for when in BEFORE_AFTER), Death("after", "quota")]
REMEDIES = ("restart", "release", "release --expired")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All that must be as it was."""

    affinities: tuple[frozenset[int], ...]
    emulator: frozenset[int]
    cgroups: dict[str, str]
    xml: str


class Guest:
    def __init__(self, host: LibvirtHost, name: str, firmware: Path) -> None:
        self._host = host
        self._name = name
        metadata = nova_metadata(extra_specs={"vp:cpu_floor": "10"})
        xml = a_domain(name, vcpus=2, cpuset="0-1", firmware=firmware, metadata=metadata)
        self.domain = host.boot(xml, is_persistent=True)
        self.original = self.snapshot()

    def affinities(self) -> tuple[frozenset[int], ...]:
        tids = read_tids(self._host.pid_of_name(self._name))
        return tuple(frozenset(os.sched_getaffinity(tid)) for tid in tids)

    def snapshot(self) -> Snapshot:
        emulator = read_emulator_affinity(self._host.pid_of_name(self._name))
        xml = without_what_is_neutral(self.live_xml())
        return Snapshot(self.affinities(), emulator, self._cgroups(), xml)

    def _cgroups(self) -> dict[str, str]:
        """Of every vCPU, of the emulator and of the whole guest."""
        top = Path("/sys/fs/cgroup")
        is_unified = (top / "cgroup.controllers").exists()
        found = {
            str(path): path.read_text()
            for root in top.glob(self._host.name if is_unified else f"cpu*/{self._host.name}")
            for path in root.rglob("*")
            if path.name in TUNED[is_unified] and self._name in unescaped(path)
        }
        assert sum("/vcpu" in path for path in found) == 2 * len(TUNED[is_unified])
        return found

    def quotas(self) -> set[Quota]:
        tids = read_tids(self._host.pid_of_name(self._name))
        return {Quota(*read_quota(cpu_group(tid))) for tid in tids}

    def is_capped(self) -> bool:
        return self.is_homed() and self.quotas() == {CAP}

    def live_xml(self) -> str:
        return str(self._domain().XMLDesc())

    def is_homed(self) -> bool:
        return set(self.affinities()) == {frozenset({0})} and NAMESPACE in self.live_xml()

    def is_original(self) -> bool:
        return self.snapshot() == self.original and not self.has_journal()

    def check_original(self, after: str) -> None:
        assert self.snapshot() == self.original, after
        assert not self.has_journal(), after

    def has_journal(self) -> bool:
        inactive = self._domain().XMLDesc(libvirt.VIR_DOMAIN_XML_INACTIVE)
        return NAMESPACE in self.live_xml() + inactive

    def leases(self) -> float:
        """When its cap's is over."""
        return float(re.search(r'until="([\d.]+)"', self.live_xml())[1])

    def start_anew(self) -> None:
        """As Nova's soft reboot ends: another QEMU from the same persistent XML."""
        self._domain().destroy()
        self._domain().create()

    def suspend(self) -> None:
        self._domain().suspend()

    def resume(self) -> None:
        self._domain().resume()

    def _domain(self) -> libvirt.virDomain:
        """By a connection of its own, since libvirtd may have been restarted."""
        return self._host.connect().lookupByName(self._name)


def unescaped(path: Path) -> str:
    """systemd's names of scopes have `\\x2d` for a dash."""
    return str(path).replace("\\x2d", "-")


def without_what_is_neutral(xml: str) -> str:
    """libvirt cannot take a pin or a quota out again; a pin that equals the bound is none."""
    domain = ET.fromstring(xml)
    bound = domain.find("vcpu").get("cpuset")
    tuned = domain.find("cputune")
    if tuned is not None:
        for element in list(tuned):
            if element.get("cpuset") == bound or (element.tag, element.text) in NEUTRAL:
                tuned.remove(element)
        if not len(tuned):
            domain.remove(tuned)
    # libvirtd itself forgets some of these when it is restarted.
    for device in domain.iterfind("devices/*"):
        for alias in device.findall("alias"):
            device.remove(alias)
    return ET.canonicalize(ET.tostring(domain, encoding="unicode"), strip_text=True)


NEUTRAL = (("quota", "-1"), ("period", "100000"))


class Operator:
    """Who starts, stops and releases on this host."""

    def __init__(self, agents: Agents, folder: Path, actuator: str) -> None:
        self._agents = agents
        self._folder = folder
        self._actuator = actuator
        self.more_config = ""
        self.log = folder / "agent.log"

    def start(
        self, homing: str = "always", death: Death | None = None, lease_s: float | None = None
    ) -> int:
        return self._command("run", homing, death, lease_s=lease_s)

    def stop(self, pid: int) -> int:
        os.kill(pid, signal.SIGTERM)
        return self.wait(pid)

    def wait(self, pid: int) -> int:
        return self._agents.wait(pid)

    def release(self, *options: str, death: Death | None = None) -> int:
        return self.wait(self._command("release", "always", death, *options))

    def _command(
        self,
        command: str,
        homing: str,
        death: Death | None,
        *options: str,
        lease_s: float | None = None,
    ) -> int:
        config = self._folder / f"{homing}.conf"
        config.write_text(
            CONFIG.format(actuator=self._actuator, folder=self._folder, homing=homing)
            + self.more_config
        )
        arguments = ["--config-file", str(config), command, *options]
        return self._agents.start(self.log, arguments, death, lease_s)

    def _runs(self) -> int:
        return self.log.read_text().count("running: ") if self.log.exists() else 0

    def remedy(self, how: str, guest: Guest) -> None:
        """What follows a death; afterwards nothing of the agent runs."""
        if how != "restart":
            assert self.release(*how.split()[1:]) == 0, self.log.read_text()
            return
        runs = self._runs()
        pid = self.start(homing="never")
        wait_until(lambda: self._runs() > runs, "it runs, and heeds signals")
        wait_until(guest.is_original, "the restarted agent has undone it")
        assert self.stop(pid) == 0, self.log.read_text()


@pytest.fixture(scope="module")
def two_domain_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LibvirtHost]:
    missing = missing_for_libvirt()
    if missing:
        pytest.skip(missing)
    host = LibvirtHost(tmp_path_factory.mktemp("two-domains"), cells="0/1")
    try:
        yield host.start()
    finally:
        host.stop()


@pytest.fixture(scope="module")
def agents(two_domain_host: LibvirtHost) -> Iterator[Agents]:
    agents = Agents(two_domain_host.inside())
    yield agents
    agents.close()


@pytest.fixture
def guest(two_domain_host: LibvirtHost) -> Iterator[Guest]:
    firmware = write_halting(two_domain_host.folder / "halting.bin")
    yield Guest(two_domain_host, "instance-00000001", firmware)
    two_domain_host.destroy_all()


@pytest.fixture(params=["kernel", "libvirt"])
def operator(request: pytest.FixtureRequest, agents: Agents, tmp_path: Path) -> Operator:
    return Operator(agents, tmp_path, request.param)


@pytest.mark.parametrize("death", WHILE_PLACING, ids=str)
def test_killed_while_placing(operator: Operator, guest: Guest, death: Death):
    for remedy in REMEDIES:
        assert operator.wait(operator.start(death=death)) == -signal.SIGKILL
        operator.remedy(remedy, guest)
        guest.check_original(remedy)


@pytest.mark.parametrize("death", WHILE_UNDOING, ids=str)
def test_killed_while_undoing(operator: Operator, guest: Guest, death: Death):
    for remedy in REMEDIES:
        pid = operator.start()
        wait_until(guest.is_homed, "homed")
        os.kill(pid, signal.SIGKILL)
        operator.wait(pid)
        assert operator.release(death=death) == -signal.SIGKILL
        operator.remedy(remedy, guest)
        guest.check_original(remedy)


@pytest.mark.parametrize("death", WHILE_CAPPING, ids=str)
def test_killed_while_capping(operator: Operator, guest: Guest, death: Death):
    for remedy in REMEDIES:
        assert operator.wait(operator.start(death=death, lease_s=LONG_S)) == -signal.SIGKILL
        operator.remedy(remedy, guest)
        guest.check_original(remedy)


@pytest.mark.parametrize("death", WHILE_LIFTING, ids=str)
def test_killed_while_lifting_a_cap(operator: Operator, guest: Guest, death: Death):
    for remedy in REMEDIES:
        pid = operator.start(lease_s=LONG_S)
        wait_until(guest.is_capped, "homed and capped")
        os.kill(pid, signal.SIGKILL)
        operator.wait(pid)
        assert operator.release(death=death) == -signal.SIGKILL
        operator.remedy(remedy, guest)
        guest.check_original(remedy)


def test_an_option_that_keeps_the_agent_from_starting_does_not_keep_it_from_being_undone(
    operator: Operator, guest: Guest
):
    pid = operator.start(lease_s=LONG_S)
    wait_until(guest.is_capped, "homed and capped")
    os.kill(pid, signal.SIGKILL)
    operator.wait(pid)
    operator.more_config = "[policy]\nmoves_per_minute = many\n"
    assert operator.wait(operator.start()) == 1
    assert operator.release() == 0, operator.log.read_text()
    guest.check_original("release")


def test_of_a_hung_agent_the_cap_goes_with_its_lease(operator: Operator, guest: Guest):
    """Its heart has stopped, but not for long: where it put vCPUs they stay."""
    pid = operator.start(lease_s=1.0)
    wait_until(guest.is_capped, "homed and capped")
    os.kill(pid, signal.SIGSTOP)

    def is_lifted() -> bool:
        assert operator.release("--expired") == 0, operator.log.read_text()
        return guest.quotas() == {NO_QUOTA}

    wait_until(is_lifted, "the lease is over")
    assert guest.is_homed()
    os.kill(pid, signal.SIGCONT)
    wait_until(guest.is_capped, "capped again")
    assert operator.stop(pid) == 0, operator.log.read_text()
    guest.check_original("stop")


def test_a_living_agent_renews_its_leases(operator: Operator, guest: Guest):
    pid = operator.start(lease_s=1.0)
    wait_until(guest.is_capped, "homed and capped")
    first = guest.leases()
    wait_until(lambda: guest.leases() >= first + 2.0, "renewed twice")
    assert guest.is_capped()
    assert operator.release("--expired") == 0
    assert guest.is_capped()
    assert operator.stop(pid) == 0, operator.log.read_text()
    guest.check_original("stop")


@pytest.mark.parametrize("death", [Death(when, "restore") for when in BEFORE_AFTER], ids=str)
def test_killed_while_it_stops(operator: Operator, guest: Guest, death: Death):
    pid = operator.start(death=death)
    wait_until(guest.is_homed, "homed")
    assert operator.stop(pid) == -signal.SIGKILL
    operator.remedy("release --expired", guest)
    guest.check_original("release --expired")


def test_stopped_it_gives_every_guest_back(operator, guest, two_domain_host):
    firmware = two_domain_host.folder / "halting.bin"
    guests = [guest, Guest(two_domain_host, "instance-00000002", firmware)]
    pid = operator.start()
    wait_until(lambda: all(g.affinities() != (BOTH, BOTH) for g in guests), "both homed")
    wait_until(lambda: all(g.has_journal() for g in guests), "and journalled")
    assert operator.stop(pid) == 0
    for each in guests:
        each.check_original("stop")


def test_a_restart_of_libvirtd_loses_nothing(operator, guest, two_domain_host):
    pid = operator.start()
    wait_until(guest.is_homed, "homed")
    two_domain_host.stop_libvirtd()
    wait_until(lambda: "libvirt does not answer" in operator.log.read_text(), "it notices")
    two_domain_host.start_libvirtd()
    wait_until(lambda: "libvirt answers again" in operator.log.read_text(), "it goes on")
    assert guest.is_homed()
    assert operator.stop(pid) == 0
    guest.check_original("stop")


def test_a_guest_that_is_started_anew_is_homed_anew_and_given_back(operator, guest):
    pid = operator.start()
    wait_until(guest.is_homed, "homed")
    os.kill(pid, signal.SIGSTOP)  # Else it may be faster than the look at what it finds.
    guest.start_anew()
    guest.original = guest.snapshot()
    os.kill(pid, signal.SIGCONT)
    wait_until(guest.is_homed, "homed anew")
    assert operator.stop(pid) == 0
    guest.check_original("stop")


def test_a_suspended_guest_keeps_its_home_and_is_given_back(operator, guest):
    pid = operator.start()
    wait_until(guest.is_homed, "homed")
    guest.suspend()
    guest.resume()
    assert guest.is_homed()
    guest.suspend()
    assert operator.stop(pid) == 0
    guest.resume()
    guest.check_original("stop")
