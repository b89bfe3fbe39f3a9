# SPDX-License-Identifier: Apache-2.0
"""Actuator `libvirt`: live pins, quotas and weights, which virsh shows and libvirt keeps.

They also stay in the XML and travel with a live migration, so every host needs our migrate hook
(`vp_agent/hooks`); see doc/source/architecture/actuators.md for what was seen.
"""

from typing import cast

from nova_vp.core.types.knob import (
    Cpus,
    CpuWeight,
    Held,
    Knob,
    Quota,
    Value,
    all_cpus,
)
from nova_vp.cpuset import format_cpus
from vp_agent.drivers import scope_weight
from vp_agent.drivers.actuator_common import read_placement, to_restore, together, within_bound
from vp_agent.drivers.base import ApplyFailed
from vp_agent.drivers.domains import Domains
from vp_agent.drivers.vcpu_pinning import may_move_others, neutralise, pin
from vp_agent.drivers.vcpu_quota import (
    neutralise_quota,
    one_of,
    read_back,
    read_quotas,
    tell_libvirt,
    within_quota,
)
from vp_agent.drivers.vcpu_threads import read_emulator_affinity


class LibvirtActuator:
    name = "libvirt"
    knobs = frozenset({Knob.PLACEMENT, Knob.CPU_CAP, Knob.CPU_WEIGHT})

    def __init__(self, domains: Domains) -> None:
        self._domains = domains

    def read(self, guest_uuid: str, knob: Knob) -> Value:
        if knob is Knob.CPU_CAP:
            return one_of(read_quotas(self._domains, guest_uuid), None)
        if knob is Knob.CPU_WEIGHT:
            return scope_weight.read_weight(self._domains, guest_uuid)
        return read_placement(self._domains, guest_uuid)

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        about = self._domains.find(guest_uuid).description
        if knob is Knob.CPU_CAP:
            quota = cast(Quota, value)
            within_quota(about, quota)
            self._cap(guest_uuid, quota)
        elif knob is Knob.CPU_WEIGHT:
            weight = cast(CpuWeight, value)
            scope_weight.within_range(self._domains, guest_uuid, weight)
            self._weigh(guest_uuid, weight)
        else:
            cpus = cast(Cpus, value)
            within_bound(about, cpus)
            self._pin(guest_uuid, cpus, all_cpus(cpus))

    def restore(self, guest_uuid: str, held: Held) -> None:
        """What the actuator `kernel` did stands in no XML, so the kernel is asked what is left."""
        if held.knob is Knob.CPU_CAP:
            original = cast(Quota, held.original)
            neutralise_quota(self._domains, guest_uuid, original)
            if set(read_quotas(self._domains, guest_uuid)) - {original}:
                self._cap(guest_uuid, original)
            return
        if held.knob is Knob.CPU_WEIGHT:
            original_weight = cast(CpuWeight, held.original)
            scope_weight.restore(self._domains, guest_uuid, original_weight, self._weigh)
            return
        neutralise(self._domains, guest_uuid)
        about = self._domains.reread(guest_uuid).description
        original_cpus = to_restore(about, cast(Cpus, held.original))
        if not self._is_at(guest_uuid, original_cpus, about.allowed_cpus):
            self._pin(guest_uuid, original_cpus, about.allowed_cpus)

    def _is_at(self, uuid: str, cpus: Cpus, emulator: frozenset[int]) -> bool:
        domain = self._domains.find(uuid)
        if read_placement(self._domains, uuid) != together(cpus):
            return False
        return (
            not may_move_others(domain.description)
            or read_emulator_affinity(domain.process.pid) == emulator
        )

    def _pin(self, uuid: str, cpus: Cpus, emulator: frozenset[int]) -> None:
        pin(self._domains, self._domains.find(uuid).description, cpus, emulator)
        self._domains.reread(uuid)
        seen = read_placement(self._domains, uuid)
        if seen != together(cpus):
            raise ApplyFailed(
                f"server {uuid} was pinned to CPUs {format_cpus(all_cpus(cpus))} but its threads "
                f"run on {format_cpus(all_cpus(seen))}: see libvirtd's log"
            )

    def _cap(self, uuid: str, quota: Quota) -> None:
        tell_libvirt(self._domains, uuid, quota)
        self._domains.reread(uuid)
        read_back(self._domains, uuid, quota)

    def _weigh(self, uuid: str, weight: CpuWeight) -> None:
        scope_weight.tell_libvirt(self._domains, uuid, weight.number)
        scope_weight.read_back(self._domains, uuid, weight)
