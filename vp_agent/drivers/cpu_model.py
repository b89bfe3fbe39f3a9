# SPDX-License-Identifier: Apache-2.0
"""Which CPU this is: vendor, family and model on x86, implementer and part on Arm.

Read from /proc/cpuinfo, or from identification registers as tools print them: `cpuid -r` on x86,
MIDR_EL1 on Arm. What is counted there is decided in `hardware_events.py`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
_LEAF = re.compile(r"^\s*0x0*([01])\s+0x0+:\s*(.*)$")
_REGISTER = re.compile(r"\b(e[abcd]x)=0x([0-9a-f]{1,8})\b")
_MIDR = re.compile(r"^(?:midr_el1\s*[:=]\s*)?0x([0-9a-f]{1,16})$", re.IGNORECASE)
_X86_FIELDS = ("vendor_id", "cpu family", "model", "stepping")
_ARM_FIELDS = ("CPU implementer", "CPU part")


class UnknownCpu(ValueError):
    """The text names no CPU, or more than one."""


@dataclass(frozen=True, slots=True)
class X86Cpu:
    vendor: str
    """As CPUID has it, for example GenuineIntel."""
    family: int
    model: int
    stepping: int

    def __str__(self) -> str:
        return f"{self.vendor} family {self.family} model {self.model} stepping {self.stepping}"


@dataclass(frozen=True, slots=True)
class ArmCpu:
    implementer: int
    part: int

    def __str__(self) -> str:
        return f"Arm implementer {self.implementer:#04x} part {self.part:#05x}"


Cpu = X86Cpu | ArmCpu


def read_cpu(path: Path = CPUINFO) -> Cpu:
    """Raises OSError, and UnknownCpu."""
    return parse_cpu(path.read_text(encoding="utf-8", errors="replace"))


def parse_cpu(text: str) -> Cpu:
    """Raises UnknownCpu."""
    found = _of_registers(text) or _of_cpuinfo(text)
    if not found:
        raise UnknownCpu("no CPU is named: neither a /proc/cpuinfo nor identification registers")
    if len(found) > 1:
        names = ", ".join(sorted(map(str, found)))
        raise UnknownCpu(f"the CPUs differ, and one list of events cannot count on all: {names}")
    return found.pop()


def _of_cpuinfo(text: str) -> set[Cpu]:
    found: set[Cpu] = set()
    for block in re.split(r"\n\s*\n", text):
        pairs = (line.partition(":") for line in block.splitlines())
        fields = {name.strip(): value.strip() for name, _, value in pairs}
        try:
            found |= _of_fields(fields)
        except ValueError as exc:
            raise UnknownCpu(f"not a /proc/cpuinfo: {exc}") from exc
    return found


def _of_fields(fields: Mapping[str, str]) -> set[Cpu]:
    if all(name in fields for name in _X86_FIELDS):
        vendor, *numbers = (fields[name] for name in _X86_FIELDS)
        return {X86Cpu(vendor, *map(int, numbers))}
    if all(name in fields for name in _ARM_FIELDS):
        return {ArmCpu(*(int(fields[name], 0) for name in _ARM_FIELDS))}
    return set()


def _of_registers(text: str) -> set[Cpu]:
    leaves: dict[str, dict[str, int]] = {}
    found: set[Cpu] = set()
    for line in text.splitlines():
        if leaf := _LEAF.match(line):
            registers = {name: int(value, 16) for name, value in _REGISTER.findall(leaf[2])}
            if len(registers) == 4:
                leaves[leaf[1]] = registers
            if len(leaves) == 2:
                found.add(_of_leaves(leaves["0"], leaves["1"]))
        elif midr := _MIDR.match(line.strip()):
            found.add(_of_midr(int(midr[1], 16)))
    return found


def _of_leaves(zero: Mapping[str, int], one: Mapping[str, int]) -> Cpu:
    """CPUID Fn0000_0000 and EAX of Fn0000_0001, as Intel and AMD define them."""
    words = (zero[name].to_bytes(4, "little") for name in ("ebx", "edx", "ecx"))
    vendor = b"".join(words).decode("ascii", errors="replace")
    eax = one["eax"]
    base, model = eax >> 8 & 0xF, eax >> 4 & 0xF
    family = base + (eax >> 20 & 0xFF if base == 0xF else 0)
    if base in (0x6, 0xF):
        model |= (eax >> 16 & 0xF) << 4
    return X86Cpu(vendor, family, model, eax & 0xF)


def _of_midr(midr: int) -> Cpu:
    """Main ID Register: implementer in bits 31 to 24, part in bits 15 to 4."""
    return ArmCpu(midr >> 24 & 0xFF, midr >> 4 & 0xFFF)
