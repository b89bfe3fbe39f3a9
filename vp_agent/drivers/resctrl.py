# SPDX-License-Identifier: Apache-2.0
"""Partition source `resctrl`: one kernel group per guest holds back what it takes of the LLC (CAT)
and of the memory bandwidth (MBA).

It stands in no XML, so nothing of it travels with a migration, and the root's group, which all
others run in, is never changed. The kernel moves another user's threads for uid 0 alone, whatever
the capabilities, so this needs the uid and no capability.
"""

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

from oslo_config import cfg

from nova_vp.core.types.knob import Held, Knob, Partition, Value
from vp_agent.drivers.base import ApplyFailed, GuestGone
from vp_agent.drivers.cache_partition import PartitionUnavailable
from vp_agent.drivers.domains import Domains
from vp_agent.drivers.resctrl_groups import Groups, name_of
from vp_agent.drivers.resctrl_schemata import (
    Features,
    Unusable,
    format_schemata,
    parse_features,
    partition_of,
)
from vp_agent.drivers.vcpu_threads import Process

FREE = Partition()
"""Nothing holds it back: every guest's value unless we made a group for it."""


@dataclass(frozen=True, slots=True)
class Threads:
    """One guest's vCPU threads as of now."""

    process: Process
    tids: frozenset[int]
    allowed_cpus: frozenset[int]


FindThreads = Callable[[str], Threads]
"""By guest UUID; raises GuestGone, HostUnavailable."""


class GroupChanges(Protocol):
    """`Groups`, here or in the privileged helper. All raise OSError."""

    def make(self, name: str) -> None: ...
    def limit(self, name: str, schemata: str) -> None: ...
    def assign(self, name: str, pid: int, started: int) -> None: ...
    def remove(self, name: str) -> None: ...


def create(domains: Domains, groups: Groups | None = None) -> "ResctrlActuator":
    """The entry point. Raises PartitionUnavailable."""
    groups = groups or Groups()
    if not (groups.root / "info").is_dir():
        raise PartitionUnavailable(
            f"resctrl is not mounted at {groups.root}. Where the CPU can partition its cache "
            "(flags cat_l3, mba in /proc/cpuinfo): `mount -t resctrl resctrl /sys/fs/resctrl`"
        )
    try:
        features = parse_features(groups.read)
    except Unusable as exc:
        raise PartitionUnavailable(str(exc)) from exc
    changes: GroupChanges = groups if os.geteuid() == 0 else _helper()
    return ResctrlActuator(lambda uuid: _threads_of(domains, uuid), groups, changes, features)


def _helper() -> GroupChanges:
    # Imported late: only who divides caches without being root needs it.
    from vp_agent import privsep_root

    if not cfg.CONF[privsep_root.SECTION].helper_command:
        raise PartitionUnavailable(
            "resctrl takes threads of other users from uid 0 alone: let vp-agent.service run with "
            f"User=root (its capabilities stay bounded), or set [{privsep_root.SECTION}] "
            "helper_command"
        )
    return privsep_root.Helper()


def _threads_of(domains: Domains, guest_uuid: str) -> Threads:
    domain = domains.find(guest_uuid)
    return Threads(domain.process, frozenset(domain.tids), domain.description.allowed_cpus)


class ResctrlActuator:
    name = "resctrl"
    knobs = frozenset({Knob.PARTITION})

    def __init__(
        self, threads: FindThreads, groups: Groups, changes: GroupChanges, features: Features
    ) -> None:
        self.features = features
        self._threads = threads
        self._groups = groups
        self._changes = changes
        self._asked: dict[str, Partition] = {}

    def read(self, guest_uuid: str, knob: Knob) -> Value:
        """Free also where not every vCPU thread is in its group (one was plugged in since): it is
        then to be applied again."""
        threads = self._threads(guest_uuid)
        if threads.tids <= self._groups.tasks(name_of(guest_uuid)):
            return self._of_group(guest_uuid)
        for name in self._groups.foreign():
            if threads.tids & self._groups.tasks(name):
                return partition_of(self._groups.schemata(name), self.features)
        return FREE

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        partition = cast(Partition, value)
        threads = self._threads(guest_uuid)
        self._check(partition)
        self._check_owner(guest_uuid, threads)
        if partition == FREE:
            self._remove(guest_uuid)
            return
        was_held = guest_uuid in self._groups.ours()
        try:
            self._hold(guest_uuid, threads.process, partition)
        except BaseException:
            # Half a group would keep its number from others; an older one stands as it stood.
            if not was_held:
                self._remove(guest_uuid)
            raise
        self._asked[guest_uuid] = partition

    def restore(self, guest_uuid: str, held: Held) -> None:
        """Whatever was held: we take no guest that stood anywhere but in the root's group."""
        self._remove(guest_uuid)
        self._threads(guest_uuid)

    def held(self) -> frozenset[str]:
        """UUIDs of guests that a group of ours stands for, this agent's or an earlier one's."""
        return self._groups.ours()

    def discard_if_empty(self, guest_uuid: str) -> None:
        """For a guest that ended: its journal went with it, its group did not."""
        if not self._groups.tasks(name_of(guest_uuid)):
            self._remove(guest_uuid)

    def _check(self, partition: Partition) -> None:
        for ratio, feature in zip(
            partition, (self.features.cache, self.features.bandwidth), strict=True
        ):
            if not 0 < ratio <= 1:
                raise ApplyFailed(f"{ratio} is no share: give one above 0 and up to 1")
            if ratio < 1 and feature is None:
                raise ApplyFailed(f"{'; '.join(self.features.lacking)}; nothing was changed")

    def _check_owner(self, guest_uuid: str, threads: Threads) -> None:
        """Raises ApplyFailed where somebody else divides the cache for this guest, or watches it:
        moving its threads would take it away from him."""
        for name in self._groups.foreign():
            if threads.tids & self._groups.tasks(name):
                raise ApplyFailed(
                    f"server {guest_uuid} is in {self._groups.root / name}, which is not ours "
                    "(libvirt's cachetune, pqos ...): it stays there until its owner removes it"
                )
            if threads.allowed_cpus & self._groups.cpus(name):
                raise ApplyFailed(
                    f"{self._groups.root / name} holds CPUs that server {guest_uuid} may run on, "
                    "and is not ours: the server stays there"
                )
        for name in self._groups.monitors():
            if threads.tids & self._groups.tasks(name):
                raise ApplyFailed(
                    f"server {guest_uuid} is watched by {self._groups.root / name}, which would "
                    "lose it; remove that group first"
                )

    def _hold(self, guest_uuid: str, process: Process, partition: Partition) -> None:
        """The limits first, so that no thread ever runs in the group with others."""
        name = name_of(guest_uuid)
        wanted = format_schemata(partition, self.features)
        try:
            if guest_uuid not in self._groups.ours():
                self._changes.make(name)
            self._changes.limit(name, wanted)
            self._changes.assign(name, process.pid, process.started)
        except OSError as exc:
            raise self._translated(guest_uuid, exc) from exc
        self._verify(guest_uuid, wanted)

    def _verify(self, guest_uuid: str, wanted: str) -> None:
        name = name_of(guest_uuid)
        left_out = self._threads(guest_uuid).tids - self._groups.tasks(name)
        if left_out:
            raise ApplyFailed(
                f"threads {sorted(left_out)} of server {guest_uuid} are not in {name}: a vCPU came "
                "or went meanwhile; it is tried again"
            )
        seen = partition_of(self._groups.schemata(name), self.features)
        if seen != partition_of(wanted, self.features):
            raise ApplyFailed(
                f"the kernel gave {name} {seen} for {wanted.split()}: "
                f"{self._groups.last_status()}; nothing was changed"
            )

    def _of_group(self, guest_uuid: str) -> Partition:
        """As it was asked for, if the group still holds what that comes to in whole ways: a share
        that was rounded is no foreign change."""
        try:
            seen = partition_of(self._groups.schemata(name_of(guest_uuid)), self.features)
        except OSError:
            return FREE  # Removed between two looks.
        asked = self._asked.get(guest_uuid)
        if asked and partition_of(format_schemata(asked, self.features), self.features) == seen:
            return asked
        return seen

    def _remove(self, guest_uuid: str) -> None:
        self._asked.pop(guest_uuid, None)
        if guest_uuid not in self._groups.ours():
            return
        try:
            self._changes.remove(name_of(guest_uuid))
        except OSError as exc:
            raise self._translated(guest_uuid, exc) from exc

    def _translated(self, guest_uuid: str, exc: OSError) -> Exception:
        name = name_of(guest_uuid)
        if isinstance(exc, ProcessLookupError):
            return GuestGone(f"server {guest_uuid} has just ended or been replaced")
        match exc.errno:
            case errno.ENOSPC:
                others = ", ".join(sorted(self._groups.foreign())) or "none"
                return ApplyFailed(
                    f"no group is left for server {guest_uuid}: the CPU has "
                    f"{self.features.groups}, the root's included; ours now: "
                    f"{len(self._groups.ours())}, of others: {others} "
                    f"({self._groups.last_status()})"
                )
            case errno.EBUSY:
                return ApplyFailed(
                    f"no monitoring id (RMID) is free for {name}: those of groups just removed "
                    "are kept until their data has left the cache; it is tried again"
                )
            case errno.EPERM | errno.EACCES:
                return ApplyFailed(
                    f"may not change {self._groups.root / name} ({exc}): the agent needs uid 0, "
                    "its own or by [vp_agent_root] helper_command"
                )
        said = self._groups.last_status()
        return ApplyFailed(f"resctrl refused {name}: {exc.strerror or exc}; {said}")
