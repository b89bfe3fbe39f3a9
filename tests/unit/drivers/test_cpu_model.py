# SPDX-License-Identifier: Apache-2.0
"""Which CPU a /proc/cpuinfo or the identification registers name."""

from pathlib import Path

import pytest

from tests.cpuinfo import EPYC_MILAN, EPYC_ROME, NEOVERSE_N1, SKYLAKE_SERVER, of_arm, of_x86
from vp_agent.drivers.cpu_model import ArmCpu, Cpu, UnknownCpu, X86Cpu, parse_cpu, read_cpu

INTEL_LEAF_0 = "eax=0x00000016 ebx=0x756e6547 ecx=0x6c65746e edx=0x49656e69"
AMD_LEAF_0 = "eax=0x0000000d ebx=0x68747541 ecx=0x444d4163 edx=0x69746e65"


def cpuid(leaf_0: str, eax: int) -> str:
    """As `cpuid -1 -r` prints it."""
    rest = "ebx=0x00020800 ecx=0x00000000 edx=0x00000000"
    return f"CPU:\n   0x00000000 0x00: {leaf_0}\n   0x00000001 0x00: eax={eax:#010x} {rest}\n"


@pytest.mark.parametrize(
    ("text", "cpu"),
    [
        (EPYC_ROME, X86Cpu("AuthenticAMD", 23, 49, 0)),
        (EPYC_MILAN, X86Cpu("AuthenticAMD", 25, 1, 1)),
        (SKYLAKE_SERVER, X86Cpu("GenuineIntel", 6, 85, 4)),
        (NEOVERSE_N1, ArmCpu(0x41, 0xD0C)),
        # EAX of leaf 1: AMD 55803 and 55898, Fn0000_0001; Intel 253666, CPUID.
        (cpuid(AMD_LEAF_0, 0x00830F10), X86Cpu("AuthenticAMD", 0x17, 0x31, 0)),
        (cpuid(AMD_LEAF_0, 0x00A00F11), X86Cpu("AuthenticAMD", 0x19, 0x01, 1)),
        (cpuid(INTEL_LEAF_0, 0x00050654), X86Cpu("GenuineIntel", 6, 85, 4)),
        # Family 5 has no extended model, whatever stands in its bits.
        (cpuid(INTEL_LEAF_0, 0x000F0543), X86Cpu("GenuineIntel", 5, 4, 3)),
        ("0x00000000414fd0c1\n", ArmCpu(0x41, 0xD0C)),
        ("MIDR_EL1: 0x414FD0C1", ArmCpu(0x41, 0xD0C)),
    ],
)
def test_a_cpu_is_named(text: str, cpu: Cpu) -> None:
    assert parse_cpu(text) == cpu


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no CPU is named"),
        ("processor\t: 0\nmodel name\t: something\n", "no CPU is named"),
        (cpuid("eax=0x0000000d", 0x00830F10), "no CPU is named"),
        ("vendor_id: x\ncpu family: six\nmodel: 1\nstepping: 1\n", "not a /proc/cpuinfo"),
        (f"{of_arm(0xD0C)}\n{of_arm(0xD05)}", "the CPUs differ"),
        (f"{SKYLAKE_SERVER}\n{of_x86('GenuineIntel', 6, 106, 6)}", "model 106.*model 85"),
    ],
)
def test_a_text_that_names_no_one_cpu_is_refused(text: str, words: str) -> None:
    with pytest.raises(UnknownCpu, match=words):
        parse_cpu(text)


def test_this_very_machine_is_named_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "cpuinfo"
    path.write_text(EPYC_ROME, encoding="utf-8")
    assert read_cpu(path) == parse_cpu(EPYC_ROME)
    assert str(read_cpu())
