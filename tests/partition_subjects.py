# SPDX-License-Identifier: Apache-2.0
"""What the contract of partitions is run against: groups in a resctrl tree, and the fake."""

import itertools
from pathlib import Path
from typing import Any, Protocol

from nova_vp.core.types.knob import Held, Knob, LlcShare, MembwShare
from tests.resctrl_tree import ResctrlTree
from vp_agent.drivers.base import GuestGone
from vp_agent.drivers.cache_partition import FREE, PartitionActuator
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


Both = tuple[LlcShare, MembwShare]
HALF: Both = LlcShare(0.5), MembwShare(0.5)
NOTHING_HELD: Both = LlcShare(), MembwShare()


def hold(subject: Subject, uuid: str, *shares: LlcShare | MembwShare) -> None:
    """One action each, as the agent has it."""
    for share in shares:
        knob = Knob.LLC if isinstance(share, LlcShare) else Knob.MEMBW
        subject.actuator.apply(uuid, knob, share)


def seen(subject: Subject, uuid: str) -> Both:
    llc, membw = (subject.actuator.read(uuid, knob) for knob in (Knob.LLC, Knob.MEMBW))
    assert isinstance(llc, LlcShare)
    assert isinstance(membw, MembwShare)
    return llc, membw


def give_back(subject: Subject, uuid: str, *knobs: Knob) -> None:
    """Both, unless told otherwise."""
    for knob in knobs or FREE:
        subject.actuator.restore(uuid, Held(knob, HALF[0], FREE[knob], "vp", "vp-1"))
