# SPDX-License-Identifier: Apache-2.0
"""/proc/cpuinfo of some CPUs, as far as it identifies them.

Families and models are those of QEMU's CPU models: `query-cpu-model-expansion` of QEMU 7.2 says
EPYC-Rome 23/49/0, EPYC-Milan 25/1/1, Skylake-Server 6/85/4; Neoverse-N1 has MIDR 0x414fd0c1.
"""


def of_x86(vendor: str, family: int, model: int, stepping: int, processors: int = 2) -> str:
    fields = (
        f"vendor_id\t: {vendor}\ncpu family\t: {family}\nmodel\t\t: {model}\n"
        f"model name\t: a CPU: with a colon\nstepping\t: {stepping}\nflags\t\t: fpu vme de\n"
    )
    return "\n".join(f"processor\t: {number}\n{fields}" for number in range(processors))


def of_arm(part: int, implementer: int = 0x41, processors: int = 2) -> str:
    fields = (
        "BogoMIPS\t: 50.00\nFeatures\t: fp asimd\n"
        f"CPU implementer\t: {implementer:#04x}\nCPU architecture: 8\nCPU variant\t: 0x4\n"
        f"CPU part\t: {part:#05x}\nCPU revision\t: 1\n"
    )
    return "\n".join(f"processor\t: {number}\n{fields}" for number in range(processors))


EPYC_ROME = of_x86("AuthenticAMD", 23, 49, 0)
EPYC_MILAN = of_x86("AuthenticAMD", 25, 1, 1)
SKYLAKE_SERVER = of_x86("GenuineIntel", 6, 85, 4)
NEOVERSE_N1 = of_arm(0xD0C)
