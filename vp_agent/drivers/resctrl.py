# SPDX-License-Identifier: Apache-2.0
"""Partition source `resctrl`: one kernel group per guest holds back what it takes of the LLC (CAT)
and of the memory bandwidth (MBA), each a knob of its own. The group stands while one of them is
limited.

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

from nova_vp.core.types.knob import Held, Knob, Value
from vp_agent.drivers.base import ApplyFailed, GuestGone
from vp_agent.drivers.cache_partition import FREE, PartitionUnavailable
from vp_agent.drivers.domains import Domains
from vp_agent.drivers.resctrl_groups import Groups, name_of
from vp_agent.drivers.resctrl_schemata import (
    Features,
    Share,
    Unusable,
    format_schemata,
    parse_features,
    share_of,
)
from vp_agent.drivers.vcpu_threads import Process


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

    def __init__(
        self, threads: FindThreads, groups: Groups, changes: GroupChanges, features: Features
    ) -> None:
        self.features = features
        self.knobs = features.knobs
        self._threads = threads
        self._groups = groups
        self._changes = changes
        self._asked: dict[tuple[str, Knob], Share] = {}

    def read(self, guest_uuid: str, knob: Knob) -> Value:
        """Free also where not every vCPU thread is in its group (one was plugged in since): it is
        then to be applied again."""
        threads = self._threads(guest_uuid)
        if threads.tids <= self._groups.tasks(name_of(guest_uuid)):
            return self._of_group(guest_uuid, knob)
        for name in self._groups.foreign():
            if threads.tids & self._groups.tasks(name):
                return share_of(self._groups.schemata(name), knob, self.features)
        return FREE[knob]

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        share = cast(Share, value)
        threads = self._threads(guest_uuid)
        self._check(knob, share)
        self._check_owner(guest_uuid, threads)
        # An earlier start's group: no journal says any more what it limits besides.
        self.discard_if_empty(guest_uuid)
        if share == FREE[knob]:
            self._free(guest_uuid, knob)
            return
        was_held = guest_uuid in self._groups.ours()
        try:
            self._hold(guest_uuid, threads.process, knob, share)
        except BaseException:
            # Half a group would keep its number from others; an older one stands as it stood.
            if not was_held:
                self._remove(guest_uuid)
            raise
        self._asked[guest_uuid, knob] = share

    def restore(self, guest_uuid: str, held: Held) -> None:
        """Whatever was held: we take no guest that stood anywhere but in the root's group."""
        self.discard_if_empty(guest_uuid)
        self._free(guest_uuid, held.knob)
        self._threads(guest_uuid)

    def held(self) -> frozenset[str]:
        """UUIDs of guests that a group of ours stands for, this agent's or an earlier one's."""
        return self._groups.ours()

    def discard_if_empty(self, guest_uuid: str) -> None:
        """For a guest that ended: its journal went with it, its group did not."""
        if not self._groups.tasks(name_of(guest_uuid)):
            self._remove(guest_uuid)

    def _check(self, knob: Knob, share: Share) -> None:
        if not 0 < share.ratio <= 1:
            raise ApplyFailed(f"{share.ratio} is no share: give one above 0 and up to 1")
        if knob in self.features.lacking:
            raise ApplyFailed(f"{self.features.lacking[knob]}; nothing was changed")

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

    def _hold(self, guest_uuid: str, process: Process, knob: Knob, share: Share) -> None:
        """The limits first, so that no thread ever runs in the group with others."""
        name = name_of(guest_uuid)
        shares: dict[Knob, Share] = {knob: share}
        try:
            if guest_uuid not in self._groups.ours():
                self._changes.make(name)
                shares = {**FREE, **shares}
            self._changes.limit(name, format_schemata(shares.values(), self.features))
            self._changes.assign(name, process.pid, process.started)
        except OSError as exc:
            raise self._translated(guest_uuid, exc) from exc
        self._verify(guest_uuid, knob, share)

    def _verify(self, guest_uuid: str, knob: Knob, share: Share) -> None:
        name = name_of(guest_uuid)
        left_out = self._threads(guest_uuid).tids - self._groups.tasks(name)
        if left_out:
            raise ApplyFailed(
                f"threads {sorted(left_out)} of server {guest_uuid} are not in {name}: a vCPU came "
                "or went meanwhile; it is tried again"
            )
        seen = share_of(self._groups.schemata(name), knob, self.features)
        if seen != self._rounded(knob, share):
            raise ApplyFailed(
                f"the kernel gave {name} {seen} for {share}: {self._groups.last_status()}; "
                "nothing was changed"
            )

    def _of_group(self, guest_uuid: str, knob: Knob) -> Share:
        """As it was asked for, if the group still holds what that comes to in whole ways: a share
        that was rounded is no foreign change."""
        try:
            seen = share_of(self._groups.schemata(name_of(guest_uuid)), knob, self.features)
        except OSError:
            return FREE[knob]  # Removed between two looks.
        asked = self._asked.get((guest_uuid, knob))
        return asked if asked and self._rounded(knob, asked) == seen else seen

    def _rounded(self, knob: Knob, share: Share) -> Share:
        """As it reads back."""
        return share_of(format_schemata([share], self.features), knob, self.features)

    def _free(self, guest_uuid: str, knob: Knob) -> None:
        """The other one of the two stays as it is; the group goes if that is free too."""
        self._asked.pop((guest_uuid, knob), None)
        if knob in self.features.lacking or guest_uuid not in self._groups.ours():
            return
        others = FREE.keys() - {knob}
        if all(self._of_group(guest_uuid, other) == FREE[other] for other in others):
            self._remove(guest_uuid)
            return
        whole = format_schemata([FREE[knob]], self.features)
        try:
            self._changes.limit(name_of(guest_uuid), whole)
        except OSError as exc:
            raise self._translated(guest_uuid, exc) from exc

    def _remove(self, guest_uuid: str) -> None:
        for knob in FREE:
            self._asked.pop((guest_uuid, knob), None)
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
