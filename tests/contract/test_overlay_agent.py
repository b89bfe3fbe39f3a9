# SPDX-License-Identifier: Apache-2.0
"""Calls of overlays over the real agent and real libvirt, by its socket: every message of table 3
of the source (thesis 2013) granted and refused, and nothing left whatever happens meanwhile.

`web` has the lab's kernel and a balloon, `db` and `mill` are guests that stand still.
"""

import json
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from nova_vp.core.types.knob import EmulatorWeight, Quota
from nova_vp.core.types.overlay import Overlay
from testbed.lab import settings
from tests.contract.test_balloon import BALLOON, BOOT, COMMAND_LINE, NONE
from tests.domain_xml import PROJECT_ID, a_domain, nova_metadata, write_halting
from tests.host_subjects import IO_THREAD, LibvirtSubject
from tests.libvirt_host import LibvirtHost, missing_for_libvirt
from tests.overlay_agent import AgentMonitor, OverlayAgent
from tests.waiting import wait_until
from vp_agent.drivers.balloon import used_kib
from vp_agent.drivers.journal_entry import NAMESPACE

SHOP, MILLS, NOBODYS = (f"00000000-0000-4000-8000-00000000000{n}" for n in "abc")


class Applied(NamedTuple):
    affinities: frozenset[frozenset[int]]
    quotas: frozenset[Quota]
    weight: int
    emulator_weights: frozenset[EmulatorWeight]
    memory_kib: int


class Standing(NamedTuple):
    """All that must be as it was."""

    applied: Applied
    has_journal: bool


@pytest.fixture(scope="module")
def two_domains(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LibvirtHost]:
    if missing := missing_for_libvirt():
        pytest.skip(missing)
    host = LibvirtHost(tmp_path_factory.mktemp("overlays"), cells="0/1", migration_port=49400)
    try:
        yield host.start()
    finally:
        host.stop()


class Cloud:
    """Three servers in two overlays, and the agent of their host."""

    def __init__(self, host: LibvirtHost, folder: Path) -> None:
        self.subject = LibvirtSubject(host)
        self.folder = folder
        subprocess.run([settings.LAB / "guest" / "build"], check=True, capture_output=True)
        cache = settings.CACHE
        boot = BOOT.format(cache / "guest-vmlinuz", cache / "guest-initrd", COMMAND_LINE)
        halting = write_halting(folder / "halting.bin")
        self.web = self._boot("instance-00000001", BALLOON, memory_mib=128, boot=boot)
        self.db = self._boot("instance-00000002", NONE, firmware=halting)
        self.mill = self._boot("instance-00000003", NONE, firmware=halting)
        wait_until(
            lambda: used_kib(self.subject.domain(self.web).memoryStats(), time.time()),
            "the balloon's driver reports",
        )
        self.before = {uuid: self.standing(uuid) for uuid in self.servers}
        shop = Overlay(SHOP, "shop", PROJECT_ID, frozenset({self.web, self.db}))
        mills = Overlay(MILLS, "mills", PROJECT_ID, frozenset({self.mill}))
        self.agent = OverlayAgent(host, folder)
        self.agent.tell(shop, mills)

    def start(self) -> None:
        self.agent.start(self._is_ready)

    def _is_ready(self) -> bool:
        texts = [self.subject.live_xml(uuid) for uuid in self.servers]
        return all("reserved" in text for text in texts)

    @property
    def servers(self) -> tuple[str, ...]:
        return self.web, self.db, self.mill

    def _boot(self, name: str, device: str, **about: Any) -> str:
        metadata = nova_metadata(extra_specs={"vp:cpu_floor": "10"})
        body = f"{IO_THREAD}<features><acpi/></features>"
        xml = a_domain(name, vcpus=1, body=body, metadata=metadata, **about)
        uuid = self.subject.host.boot(xml.replace(NONE, device), is_persistent=True).UUIDString()
        self.subject.adopt(uuid)
        return str(uuid)

    def standing(self, uuid: str) -> Standing:
        return Standing(self.applied(uuid), NAMESPACE in self.subject.live_xml(uuid))

    def applied(self, uuid: str) -> Applied:
        return Applied(
            frozenset(self.subject.affinities(uuid)),
            frozenset(self.subject.quotas(uuid)),
            self.subject.weight(uuid).number,
            frozenset(self.subject.emulator_weights(uuid)),
            self.subject.domain(uuid).memoryStats().get("actual", 0),
        )

    def is_as_it_was(self, uuid: str) -> bool:
        """But for the journal, which an agent keeps of every guest."""
        return self.applied(uuid) == self.before[uuid].applied

    def call(self, verb: str, server: str | None = None, of: str = SHOP, **about: Any) -> str:
        """Why it is refused; empty: it is granted."""
        return self.agent.call(verb, server, of, **about)

    def weight(self, uuid: str) -> int:
        return self.subject.weight(uuid).number

    def make_busy(self) -> None:
        """Something of every kind stands."""
        assert self.call("tune", self.web, direction="down", resource="memory-size") == ""
        assert self.call("tune", self.db, direction="down") == ""
        assert self.call("tune", self.db, resource="io") == ""
        assert self.call("trigger", self.mill, of=MILLS, lease_s=1.0) == ""
        assert self.weight(self.mill) > self.before[self.mill].applied.weight
        wait_until(
            lambda: self.applied(self.web).memory_kib < self.before[self.web].applied.memory_kib,
            "the guest gives up memory",
        )
        was, now = self.before[self.db].applied, self.applied(self.db)
        assert (now.quotas != was.quotas, now.weight) == (True, was.weight)
        assert now.emulator_weights == self.doubled(self.db)

    def doubled(self, uuid: str) -> frozenset[EmulatorWeight]:
        """Of all groups of its other threads."""
        before = self.before[uuid].applied.emulator_weights
        return frozenset(one._replace(number=2 * one.number) for one in before)

    def check_nothing_is_left(self, *servers: str) -> None:
        for uuid in servers or self.servers:
            assert self.standing(uuid) == self.before[uuid]

    def close(self) -> None:
        self.agent.close()
        self.subject.close()


@pytest.fixture
def cloud(two_domains: LibvirtHost, tmp_path: Path) -> Iterator[Cloud]:
    with ExitStack() as stack:
        stack.callback(two_domains.destroy_all)
        cloud = Cloud(two_domains, tmp_path)
        stack.callback(cloud.close)
        cloud.start()
        yield cloud


def test_every_message_of_the_source_is_granted_and_refused(cloud):
    before = cloud.weight(cloud.db)
    assert cloud.call("tune", cloud.db, direction="down") == ""
    assert not cloud.is_as_it_was(cloud.db), "at once"
    # Nor here, and here is no vp-scheduler to ask whether it is a member elsewhere.
    assert cloud.call("tune", cloud.mill, direction="down") == "unreachable"
    assert cloud.call("tune", cloud.db, of=NOBODYS) == "unknown-overlay"
    assert cloud.call("tune", cloud.web, resource="memory-size", direction="down") == ""
    assert cloud.call("tune", cloud.db, resource="memory-size") == "no-balloon"
    assert cloud.call("tune", cloud.web, resource="io") == ""
    assert cloud.applied(cloud.web).emulator_weights == cloud.doubled(cloud.web)
    assert cloud.call("release") == ""
    assert cloud.weight(cloud.db) == before
    assert (
        cloud.applied(cloud.web).emulator_weights
        == cloud.before[cloud.web].applied.emulator_weights
    )
    assert cloud.call("release") == "nothing-to-release"
    assert cloud.call("trigger", cloud.db, lease_s=0.5) == ""
    assert cloud.weight(cloud.db) > before
    wait_until(lambda: cloud.weight(cloud.db) == before, "its moment is over")
    assert cloud.call("trigger", lease_s=0.5) == ""
    assert cloud.call("trigger", lease_s=1.0) == "no-credit"
    assert cloud.call("borrow", cloud.db, cpus=64) == "no-room"
    assert cloud.agent.stop() == 0
    cloud.check_nothing_is_left()


def test_a_weight_of_its_io_threads_that_somebody_else_sets_is_respected(cloud):
    assert cloud.call("tune", cloud.db, resource="io") == ""
    cloud.subject.weigh_emulator_by_hand(cloud.db, 300)
    wait_until(lambda: not cloud.standing(cloud.db).has_journal, "the change is seen")
    assert cloud.call("tune", cloud.db, resource="io") == "unmanaged"
    assert cloud.agent.stop() == 0
    assert 300 in {one.number for one in cloud.subject.emulator_weights(cloud.db)}
    cloud.check_nothing_is_left(cloud.web, cloud.mill)


def test_a_killed_agent_leaves_nothing_once_the_timer_has_looked(cloud):
    cloud.make_busy()
    cloud.agent.kill()
    cloud.agent.release_expired()
    cloud.check_nothing_is_left()


def test_the_next_agent_gives_back_what_a_killed_one_left_and_knows_its_overlays(cloud):
    cloud.make_busy()
    cloud.agent.kill()
    cloud.start()
    wait_until(
        lambda: all(map(cloud.is_as_it_was, cloud.servers)),
        "all is as it was",
    )
    assert cloud.call("tune", cloud.db, direction="down") == ""
    assert cloud.agent.stop() == 0
    cloud.check_nothing_is_left()


def test_servers_that_end_in_the_middle_keep_nobody_from_going_back(cloud):
    cloud.make_busy()
    cloud.subject.end(cloud.db)
    assert cloud.call("tune", cloud.db, direction="down") in ("host-refused", "not-a-member")
    assert cloud.call("tune", cloud.mill, of=MILLS, direction="down") == ""
    assert cloud.agent.stop() == 0
    cloud.check_nothing_is_left(cloud.web, cloud.mill)


def test_two_that_fight_and_one_that_floods_leave_nothing(cloud):
    for _ in range(3):
        cloud.call("tune", cloud.web, direction="up")
        cloud.call("tune", cloud.mill, of=MILLS, direction="up")
        cloud.call("tune", cloud.db, direction="down")
    refused = [cloud.call("tune", cloud.db, direction="down") for _ in range(300)]
    assert "too-many-calls" in refused
    assert cloud.call("release", of=MILLS) in ("", "nothing-to-release"), "others are still served"
    assert cloud.agent.stop() == 0
    cloud.check_nothing_is_left()


CALL = {"overlay_id": SHOP, "verb": "trigger"}


@pytest.mark.parametrize(
    "line",
    [
        b"GET / HTTP/1.1\n",
        b"[" * 4000 + b"\n",
        b'{"a":' * 600 + b"1" + b"}" * 600 + b"\n",
        b"\xff\xfe\x00\n",
        json.dumps({**CALL, "lease_s": float("nan")}).encode() + b"\n",
        json.dumps({**CALL, "lease_s": -1}).encode() + b"\n",
        json.dumps({**CALL, "id": "x" * 3000}).encode() + b"\n",
        json.dumps({**CALL, "project_id": "another"}).encode() + b"\n",
        json.dumps(CALL).encode() + b" " * 4096 + b"\n",
        json.dumps(CALL).encode()[:-1] + b"," * 100_000,
    ],
    ids=["http", "deep", "deeper", "bytes", "nan", "lease", "id", "project", "blanks", "endless"],
)
def test_what_is_no_call_changes_nothing(cloud, line):
    liar = AgentMonitor(cloud.folder)
    with suppress(ConnectionError):  # It is hung up on before it is through.
        liar.send(line)
    assert liar.answer().keys() == {"error"}
    liar.close()
    assert cloud.call("release") == "nothing-to-release"
    assert cloud.agent.stop() == 0
    cloud.check_nothing_is_left()


def test_a_crowd_that_says_nothing_or_half_a_line_keeps_no_monitor_away(cloud):
    crowd = [silent(cloud.folder) for _ in range(1000)]
    assert cloud.call("tune", cloud.db, direction="down") == ""
    told = Path(f"/proc/{cloud.agent.process.pid}/status").read_text()
    threads = next(int(line.split()[1]) for line in told.splitlines() if "Threads" in line)
    assert threads < 100
    for one in crowd:
        one.close()
    wait_until(lambda: is_served(cloud.folder), "there is room again")
    assert cloud.agent.stop() == 0
    cloud.check_nothing_is_left()


def silent(folder: Path) -> socket.socket:
    one = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    one.connect(str(folder / "run" / "overlay.sock"))
    with suppress(OSError):
        one.sendall(b'{"overlay_id": ')
    return one


def is_served(folder: Path) -> bool:
    monitor = AgentMonitor(folder)
    try:
        return "nack" in monitor.ask(overlay_id=SHOP, verb="release")
    except (OSError, ValueError):  # It is hung up on.
        return False
    finally:
        monitor.close()


def test_a_lease_that_is_replayed_grows_no_longer(cloud):
    before = cloud.weight(cloud.db)
    call = {"id": "one", "lease_s": 1.0}
    assert cloud.call("trigger", cloud.db, **call) == ""

    def has_ended() -> bool:
        assert cloud.call("trigger", cloud.db, **call) == "", "as it was answered first"
        return cloud.weight(cloud.db) == before

    wait_until(has_ended, "its moment is over")
    assert cloud.agent.stop() == 0
    cloud.check_nothing_is_left()


def test_two_who_call_for_one_server_at_once_are_each_answered(cloud):
    def calls(way: str) -> list[str]:
        monitor = AgentMonitor(cloud.folder)
        call = {"overlay_id": SHOP, "verb": "tune", "server_id": cloud.db, "direction": way}
        nacks = [monitor.ask(**call)["nack"] for _ in range(20)]
        monitor.close()
        return nacks

    with ThreadPoolExecutor(2) as pool:
        up, down = pool.map(calls, ("up", "down"))
    assert {*up, *down} <= {None, "too-soon", "no-room"}
    assert None in up + down
    assert cloud.call("release") in ("", "nothing-to-release")
    assert cloud.is_as_it_was(cloud.db)
    assert cloud.agent.stop() == 0
    cloud.check_nothing_is_left()
