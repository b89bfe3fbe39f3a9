# SPDX-License-Identifier: Apache-2.0
"""The weights of QEMU's threads besides the vCPUs, of a host in memory."""

from dataclasses import dataclass
from typing import cast

from nova_vp.core.types.knob import (
    NO_EMULATOR_WEIGHT,
    WEIGHT_RANGES,
    EmulatorWeight,
    Held,
    Knob,
    Value,
)
from vp_agent.drivers.base import ApplyFailed
from vp_agent.drivers.fake import UNIT, FakeHost


@dataclass(frozen=True, slots=True)
class FakeEmulatorWeights:
    host: FakeHost
    name: str = "fake"
    knobs: frozenset[Knob] = frozenset({Knob.EMULATOR_WEIGHT})

    def read(self, guest_uuid: str, knob: Knob) -> Value:
        return self.host.find(guest_uuid).guest.emulator_weight

    def apply(self, guest_uuid: str, knob: Knob, value: Value) -> None:
        entry, weight = self.host.find(guest_uuid), cast(EmulatorWeight, value)
        if entry.refuses:
            raise ApplyFailed(entry.refuses)
        if entry.guest.emulator_weight == NO_EMULATOR_WEIGHT or not _is_valid(weight):
            raise ApplyFailed(f"{weight} is no CPU weight of this host")
        entry.guest = entry.guest._replace(emulator_weight=weight)

    def restore(self, guest_uuid: str, held: Held) -> None:
        entry, original = self.host.find(guest_uuid), cast(EmulatorWeight, held.original)
        if entry.guest.emulator_weight == NO_EMULATOR_WEIGHT:
            return
        if entry.refuses:
            raise ApplyFailed(entry.refuses)
        if not _is_valid(original):
            original = EmulatorWeight(WEIGHT_RANGES[UNIT].default, UNIT)
        entry.guest = entry.guest._replace(emulator_weight=original)


def _is_valid(weight: EmulatorWeight) -> bool:
    return weight.unit is UNIT and WEIGHT_RANGES[UNIT].takes(weight.number)
