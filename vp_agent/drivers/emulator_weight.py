# SPDX-License-Identifier: Apache-2.0
"""The CPU weight of a guest's threads besides its vCPUs: of the cgroups `emulator` (QEMU's main
loop, its workers, vhost) and `iothreadN` that libvirt makes beside those of the vCPUs.

libvirt has no call for it, so it stands in no XML, and a migration carries nothing; systemd leaves
to libvirt what is below a scope. So the files are written, whichever actuator turns the rest.
"""

import os
from collections.abc import Callable, Collection
from typing import cast

from nova_vp.core.types.knob import (
    NO_EMULATOR_WEIGHT,
    WEIGHT_RANGES,
    EmulatorWeight,
    Held,
    Knob,
    Value,
    WeightUnit,
)
from vp_agent.drivers import cgroups
from vp_agent.drivers.actuator_common import looked_twice
from vp_agent.drivers.base import ApplyFailed, GuestGone
from vp_agent.drivers.capabilities import CAP_DAC_OVERRIDE, has_capability
from vp_agent.drivers.cgroups import CpuGroup, NoCpuGroup
from vp_agent.drivers.domains import Domain, Domains
from vp_agent.drivers.group_files import WeightFiles
from vp_agent.drivers.kernel_file import Room
from vp_agent.drivers.paced_reading import PacedReading


def emulator_reading() -> PacedReading[WeightFiles, EmulatorWeight]:
    """For the guests of every tick."""
    room = Room()

    def find(domain: Domain) -> WeightFiles | None:
        groups = _groups_of(domain)
        return WeightFiles(groups, room) if groups else None

    def read(files: WeightFiles, ours: EmulatorWeight | None) -> EmulatorWeight:
        return _one_of(files.read(), ours, is_unified=files.is_unified)

    return PacedReading(Knob.EMULATOR_WEIGHT, find, read, NO_EMULATOR_WEIGHT)


def create(domains: Domains) -> "EmulatorWeights":
    """In this process where it may, else through the privileged helper."""
    may_write = os.geteuid() == 0 or has_capability(CAP_DAC_OVERRIDE)
    return EmulatorWeights(domains, cgroups.set_emulator_weight if may_write else _by_helper)


def _by_helper(pid: int, started: int, number: int) -> None:
    # Imported late: most agents never need it, and it would double what they weigh.
    from vp_agent import privsep

    privsep.set_emulator_weight(pid, started, number)


class EmulatorWeights:
    """Implements `Actuator`."""

    name = "cgroup"
    knobs = frozenset({Knob.EMULATOR_WEIGHT})

    def __init__(self, domains: Domains, set_weight: Callable[[int, int, int], None]) -> None:
        """`set_weight`: as `cgroups.set_emulator_weight`."""
        self._domains = domains
        self._set_weight = set_weight

    def read(self, guest_uuid: str, knob: Knob) -> Value:
        return looked_twice(self._domains, guest_uuid, lambda domain: _read(domain, None))

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        weight, now = cast(EmulatorWeight, value), self.read(guest_uuid, knob)
        if now == NO_EMULATOR_WEIGHT:
            raise ApplyFailed(
                f"the I/O threads of server {guest_uuid} have no CPU weight: libvirt needs the "
                "controller `cpu` (see cgroup_controllers in /etc/libvirt/qemu.conf), and their "
                "cgroups must not be idle (cpu.idle); nothing was changed"
            )
        if not _is_valid(weight, cast(EmulatorWeight, now).unit):
            raise ApplyFailed(
                f"{weight.number} {weight.unit.value} is no CPU weight of this host; nothing was "
                "changed"
            )
        self._weigh(guest_uuid, weight)

    def restore(self, guest_uuid: str, held: Held) -> None:
        """What stood there before us, if it was on a host of this kind; else the default."""
        now = cast(EmulatorWeight, self.read(guest_uuid, held.knob))
        if now == NO_EMULATOR_WEIGHT:
            return  # Nothing of ours can stand there.
        original = cast(EmulatorWeight, held.original)
        if not _is_valid(original, now.unit):
            original = EmulatorWeight(WEIGHT_RANGES[now.unit].default, now.unit)
        if not self._have_all(guest_uuid, original):
            self._weigh(guest_uuid, original)

    def _weigh(self, uuid: str, weight: EmulatorWeight) -> None:
        process = self._domains.find(uuid).process
        try:
            self._set_weight(process.pid, process.started, weight.number)
        except OSError as exc:
            self._domains.forget(uuid)
            if isinstance(exc, ProcessLookupError):
                raise GuestGone(f"server {uuid} has just ended or been replaced") from exc
            raise ApplyFailed(
                f"may not set the CPU weight of the I/O threads of server {uuid} ({exc}): the "
                "agent needs CAP_DAC_OVERRIDE, its own or by [vp_agent_dac_override] helper_command"
            ) from exc
        if not self._have_all(uuid, weight):
            raise ApplyFailed(
                f"the I/O threads of server {uuid} were given the CPU weight {weight.number}, and "
                "their cgroups show another one: something else sets it too"
            )

    def _have_all(self, uuid: str, weight: EmulatorWeight) -> bool:
        """Of several that differ one that is not this is read."""
        return looked_twice(self._domains, uuid, lambda one: _read(one, weight)) == weight


def _groups_of(domain: Domain) -> tuple[CpuGroup, ...]:
    """None where libvirt makes no groups. Raises ProcessLookupError."""
    try:
        return cgroups.emulator_groups(cgroups.cpu_group(domain.tids[0]))
    except NoCpuGroup:
        return ()


def _read(domain: Domain, ours: EmulatorWeight | None) -> EmulatorWeight:
    groups = _groups_of(domain)
    if not groups:
        return NO_EMULATOR_WEIGHT
    numbers = [cgroups.read_weight(group) for group in groups]
    return _one_of(numbers, ours, is_unified=groups[0].is_unified)


def _one_of(
    numbers: Collection[int], ours: EmulatorWeight | None, *, is_unified: bool
) -> EmulatorWeight:
    """Of all these threads: one that somebody else set, else that of a new group (a hot-plugged I/O
    thread), else ours. Those of an idle group have none."""
    unit = WeightUnit.WEIGHT if is_unified else WeightUnit.SHARES
    held, default = ours.number if ours else None, WEIGHT_RANGES[unit].default
    number = min(numbers, key=lambda one: (one == held, one == default))
    return EmulatorWeight(number, unit) if number else NO_EMULATOR_WEIGHT


def _is_valid(weight: EmulatorWeight, unit: WeightUnit) -> bool:
    return weight.unit is unit and WEIGHT_RANGES[unit].takes(weight.number)
