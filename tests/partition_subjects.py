# SPDX-License-Identifier: Apache-2.0
"""What the contract of partitions is run against: groups in a resctrl tree, and the fake."""

import itertools
from pathlib import Path
from typing import Any, Protocol

from nova_vp.core.types.knob import Held, Knob, Partition
from tests.resctrl_tree import ResctrlTree
from vp_agent.drivers.base import GuestGone
from vp_agent.drivers.cache_partition import PartitionActuator
from vp_agent.drivers.fake import FakeHost
from vp_agent.drivers.fake_partition import FakePartitions
from vp_agent.drivers.resctrl import ResctrlActuator, Threads
from vp_agent.drivers.resctrl_groups import Groups
from vp_agent.drivers.resctrl_schemata import parse_features
from vp_agent.drivers.vcpu_threads import Process


class Subject(Protocol):
    actuator: PartitionActuator

    def boot(self) -> str: ...
    def end(self, uuid: str) -> None: ...
    def soft_reboot(self, uuid: str) -> None: ...
    def restart_agent(self) -> None: ...


class FakeSubject:
    def __init__(self) -> None:
        self.host = FakeHost()
        self.actuator = FakePartitions(self.host, most=3)

    def boot(self) -> str:
        return self.host.boot()

    def end(self, uuid: str) -> None:
        self.host.end(uuid)

    def soft_reboot(self, uuid: str) -> None:
        self.host.reboot(uuid)

    def restart_agent(self) -> None:
        """It keeps nothing but what stands on the host."""


class ResctrlSubject:
    """Guests are process and thread ids alone; `root` becomes the tree."""

    def __init__(self, root: Path, **about: Any) -> None:
        self.tree = ResctrlTree(root, **about)
        self._numbers = itertools.count(1)
        self.guests: dict[str, Threads] = {}
        self.believed: dict[str, Threads] = {}
        """What libvirt's driver still says of a guest that has just changed."""
        self.restart_agent()

    def restart_agent(self) -> None:
        self.groups = Groups(self.tree.root, self.tree, self._tids_of)
        features = parse_features(self.groups.read)
        self.actuator = ResctrlActuator(self._find, self.groups, self.groups, features)

    def boot(self, vcpus: int = 2, cpus: frozenset[int] = frozenset({0, 1})) -> str:
        uuid = f"00000000-0000-0000-0000-{next(self._numbers):012d}"
        self._start(uuid, vcpus, cpus)
        return uuid

    def end(self, uuid: str) -> None:
        self.tree.end(*self.guests.pop(uuid).tids)

    def soft_reboot(self, uuid: str) -> None:
        old = self.guests[uuid]
        self.end(uuid)
        self._start(uuid, len(old.tids), old.allowed_cpus)

    def plug(self, uuid: str) -> None:
        """One more vCPU thread; it starts in the root's group."""
        old = self.guests[uuid]
        tid = 1000 + next(self._numbers)
        self.tree.start(tid)
        self.guests[uuid] = Threads(old.process, old.tids | {tid}, old.allowed_cpus)

    def _start(self, uuid: str, vcpus: int, cpus: frozenset[int]) -> None:
        tids = frozenset(1000 + next(self._numbers) for _ in range(vcpus))
        self.tree.start(*tids)
        self.guests[uuid] = Threads(Process(min(tids), next(self._numbers)), tids, cpus)

    def _find(self, uuid: str) -> Threads:
        if uuid not in self.guests:
            raise GuestGone(f"guest {uuid} is gone")
        return self.believed.get(uuid) or self.guests[uuid]

    def _tids_of(self, process: Process) -> tuple[int, ...]:
        for guest in self.guests.values():
            if guest.process == process:
                return tuple(sorted(guest.tids))
        raise ProcessLookupError(f"process {process.pid} is another one by now")


def hold(subject: Subject, uuid: str, partition: Partition) -> None:
    subject.actuator.apply(uuid, Knob.PARTITION, partition)


def seen(subject: Subject, uuid: str) -> Partition:
    value = subject.actuator.read(uuid, Knob.PARTITION)
    assert isinstance(value, Partition)
    return value


def give_back(subject: Subject, uuid: str) -> None:
    held = Held(Knob.PARTITION, Partition(0.5), Partition(), "vp", "vp-1")
    subject.actuator.restore(uuid, held)
