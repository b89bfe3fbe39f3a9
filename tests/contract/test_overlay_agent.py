# SPDX-License-Identifier: Apache-2.0
"""Calls of overlays over the real agent and real libvirt, by its socket: every message of table 3
of the source (thesis 2013) granted and refused, and nothing left whatever happens meanwhile.

`web` has the lab's kernel and a balloon, `db` and `mill` are guests that stand still.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import pytest

from nova_vp.core.types.knob import Quota
from nova_vp.core.types.overlay import Overlay
from nova_vp.overlay_message import overlays_text
from testbed.lab import settings
from tests.contract.test_balloon import BALLOON, BOOT, COMMAND_LINE, NONE
from tests.domain_xml import PROJECT_ID, a_domain, nova_metadata, write_halting
from tests.host_subjects import LibvirtSubject
from tests.libvirt_host import LibvirtHost, missing_for_libvirt
from tests.waiting import wait_until
from vp_agent.drivers.balloon import used_kib
from vp_agent.drivers.journal_entry import NAMESPACE

SHOP, MILLS, NOBODYS = (f"00000000-0000-4000-8000-00000000000{n}" for n in "abc")
BOTH = frozenset({0, 1})
CONFIG = """\
[agent]
host = test
mode = enforce
interval_s = 0.2
vpmu_directory = {folder}/none
state_directory = {folder}/state
run_directory = {folder}/run
[policy]
controllers = overlays
[controller_overlays]
credit_s = 2
[bus]
transport_url = fake:/
"""


class Standing(NamedTuple):
    """All that must be as it was."""

    affinities: frozenset[frozenset[int]]
    quotas: frozenset[Quota]
    weight: int
    memory_kib: int
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
        (folder / "state").mkdir()
        shop = Overlay(SHOP, "shop", PROJECT_ID, frozenset({self.web, self.db}))
        mills = Overlay(MILLS, "mills", PROJECT_ID, frozenset({self.mill}))
        (folder / "state" / "overlays.json").write_text(overlays_text(1, [shop, mills]))
        self._config = folder / "nova-vp.conf"
        self._config.write_text(CONFIG.format(folder=folder))
        self._inside = host.inside()
        self.agent: subprocess.Popen[bytes] | None = None
        self._answers: BinaryIO | None = None
        self._socket: socket.socket | None = None

    def start(self) -> None:
        with (self.folder / "agent.log").open("a") as log:
            self.agent = subprocess.Popen(self._command("run"), stdout=log, stderr=log)
        wait_until(self._is_ready, "the agent has journalled the originals", 60.0)
        self._hang_up()
        wait_until(self._connects, "the agent takes calls")

    def _connects(self) -> bool:
        """A killed agent leaves its socket, and nobody listens."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(str(self.folder / "run" / "overlay.sock"))
        except OSError:
            self._socket.close()
            return False
        self._answers = self._socket.makefile("rb")
        return True

    def _is_ready(self) -> bool:
        assert self.agent.poll() is None, (self.folder / "agent.log").read_text()[-3000:]
        texts = [self.subject.live_xml(uuid) for uuid in self.servers]
        return all("reserved" in text for text in texts)

    def _command(self, *words: str) -> list[str]:
        agent = [sys.executable, "-m", "vp_agent.cli.main", "--config-file", str(self._config)]
        return [*self._inside, *agent, *words]

    @property
    def servers(self) -> tuple[str, ...]:
        return self.web, self.db, self.mill

    def _boot(self, name: str, device: str, **about: Any) -> str:
        metadata = nova_metadata(extra_specs={"vp:cpu_floor": "10"})
        body = "<features><acpi/></features>"
        xml = a_domain(name, vcpus=1, body=body, metadata=metadata, **about)
        uuid = self.subject.host.boot(xml.replace(NONE, device), is_persistent=True).UUIDString()
        self.subject.adopt(uuid)
        return str(uuid)

    def standing(self, uuid: str) -> Standing:
        return Standing(
            frozenset(self.subject.affinities(uuid)),
            frozenset(self.subject.quotas(uuid)),
            self.subject.weight(uuid).number,
            self.subject.domain(uuid).memoryStats().get("actual", 0),
            NAMESPACE in self.subject.live_xml(uuid),
        )

    def call(self, verb: str, server: str | None = None, of: str = SHOP, **about: Any) -> str:
        """Why it is refused; empty: it is granted."""
        told = {"overlay_id": of, "verb": verb, "server_id": server, **about}
        self._socket.sendall(json.dumps(told).encode() + b"\n")
        answer = json.loads(self._answers.readline())
        assert "error" not in answer, answer
        return answer["nack"] or ""

    def weight(self, uuid: str) -> int:
        return self.subject.weight(uuid).number

    def make_busy(self) -> None:
        """Something of every kind stands."""
        assert self.call("tune", self.web, direction="down", resource="memory-size") == ""
        assert self.call("tune", self.db, direction="down") == ""
        assert self.call("trigger", self.mill, of=MILLS, lease_s=1.0) == ""
        wait_until(
            lambda: self.standing(self.web).memory_kib < self.before[self.web].memory_kib,
            "the guest gives up memory",
        )
        assert self.standing(self.db) != self.before[self.db]

    def kill(self) -> None:
        os.kill(self.agent.pid, signal.SIGKILL)
        self.agent.wait()

    def stop(self) -> int:
        self.agent.send_signal(signal.SIGTERM)
        return self.agent.wait(60)

    def release_expired(self) -> None:
        subprocess.run(self._command("release", "--expired"), check=True, timeout=120)

    def check_nothing_is_left(self, *servers: str) -> None:
        for uuid in servers or self.servers:
            assert self.standing(uuid) == self.before[uuid]

    def close(self) -> None:
        if self.agent and self.agent.poll() is None:
            self.kill()
        self._hang_up()
        self.subject.close()

    def _hang_up(self) -> None:
        for one in (self._answers, self._socket):
            if one:
                one.close()


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
    assert cloud.standing(cloud.db) != cloud.before[cloud.db], "at once"
    assert cloud.call("tune", cloud.mill, direction="down") == "not-a-member"
    assert cloud.call("tune", cloud.db, of=NOBODYS) == "unknown-overlay"
    assert cloud.call("tune", cloud.web, resource="memory-size", direction="down") == ""
    assert cloud.call("tune", cloud.db, resource="memory-size") == "no-balloon"
    assert cloud.call("release") == ""
    assert cloud.weight(cloud.db) == before
    assert cloud.call("release") == "nothing-to-release"
    assert cloud.call("trigger", cloud.db, lease_s=0.5) == ""
    assert cloud.weight(cloud.db) > before
    wait_until(lambda: cloud.weight(cloud.db) == before, "its moment is over")
    assert cloud.call("trigger", lease_s=0.5) == ""
    assert cloud.call("trigger", lease_s=1.0) == "no-credit"
    assert cloud.call("borrow", cloud.db, cpus=64) == "no-room"
    assert cloud.stop() == 0
    cloud.check_nothing_is_left()


def test_a_killed_agent_leaves_nothing_once_the_timer_has_looked(cloud):
    cloud.make_busy()
    cloud.kill()
    cloud.release_expired()
    cloud.check_nothing_is_left()


def test_the_next_agent_gives_back_what_a_killed_one_left_and_knows_its_overlays(cloud):
    cloud.make_busy()
    cloud.kill()
    cloud.start()
    wait_until(
        lambda: all(cloud.standing(uuid)[:4] == cloud.before[uuid][:4] for uuid in cloud.servers),
        "all is as it was",
    )
    assert cloud.call("tune", cloud.db, direction="down") == ""
    assert cloud.stop() == 0
    cloud.check_nothing_is_left()


def test_servers_that_end_in_the_middle_keep_nobody_from_going_back(cloud):
    cloud.make_busy()
    cloud.subject.end(cloud.db)
    assert cloud.call("tune", cloud.db, direction="down") in ("host-refused", "not-a-member")
    assert cloud.call("tune", cloud.mill, of=MILLS, direction="down") == ""
    assert cloud.stop() == 0
    cloud.check_nothing_is_left(cloud.web, cloud.mill)


def test_two_that_fight_and_one_that_floods_leave_nothing(cloud):
    for _ in range(3):
        cloud.call("tune", cloud.web, direction="up")
        cloud.call("tune", cloud.mill, of=MILLS, direction="up")
        cloud.call("tune", cloud.db, direction="down")
    refused = [cloud.call("tune", cloud.db, direction="down") for _ in range(300)]
    assert "too-many-calls" in refused
    assert cloud.call("release", of=MILLS) in ("", "nothing-to-release"), "others are still served"
    assert cloud.stop() == 0
    cloud.check_nothing_is_left()
