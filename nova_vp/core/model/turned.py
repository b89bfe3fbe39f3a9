# SPDX-License-Identifier: Apache-2.0
"""A guest as it is once a knob was turned: the reverse of `limits.value_now`."""

from typing import cast

from nova_vp.core.types.guest import Guest
from nova_vp.core.types.knob import (
    Cpus,
    CpuWeight,
    EmulatorWeight,
    Knob,
    LlcShare,
    MembwShare,
    MemorySize,
    Quota,
    Shares,
    Value,
    all_cpus,
)


def turned(guest: Guest, knob: Knob, value: Value) -> Guest:
    """Memory is there at once."""
    match knob:
        case Knob.PLACEMENT:
            cpus = cast(Cpus, value)
            each = cpus if len(cpus) > 1 else ()
            return guest._replace(placement=all_cpus(cpus), vcpu_placement=each)
        case Knob.CPU_CAP:
            return guest._replace(quota=cast(Quota, value))
        case Knob.CPU_WEIGHT:
            return guest._replace(cpu_weight=cast(CpuWeight, value))
        case Knob.LLC:
            return guest._replace(llc=cast(LlcShare, value))
        case Knob.MEMBW:
            return guest._replace(membw=cast(MembwShare, value))
        case Knob.MEMORY_SIZE:
            return guest._replace(memory_size=cast(MemorySize, value))
        case Knob.EMULATOR_WEIGHT:
            return guest._replace(emulator_weight=cast(EmulatorWeight, value))
        case _:
            whole = sum(kib for _, kib in guest.memory_by_node)
            shares = cast(Shares, value)
            by_node = tuple((node, round(part * whole)) for node, part in shares)
            return guest._replace(memory_by_node=by_node)
