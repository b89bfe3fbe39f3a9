# SPDX-License-Identifier: Apache-2.0
"""CPU lists as libvirt and the kernel write them (`0-3,8,^2`), to and from sets. Pure."""

from collections.abc import Iterable

MAX_CPU = 8191
"""The kernel's own limit on x86 (NR_CPUS); a longer range in hostile text costs no memory."""


def parse_cpus(text: str) -> frozenset[int]:
    """Raises ValueError; the empty text is the empty set."""
    included: set[int] = set()
    excluded: set[int] = set()
    for part in filter(None, (part.strip() for part in text.split(","))):
        target = excluded if part.startswith("^") else included
        first, dash, last = part.removeprefix("^").partition("-")
        low, high = int(first), int(last if dash else first)
        if not 0 <= low <= high <= MAX_CPU:
            raise ValueError(f"{part[:40]!r} is not a range of CPUs")
        target.update(range(low, high + 1))
    return frozenset(included - excluded)


def format_cpus(cpus: Iterable[int]) -> str:
    """`0-2,5`; what `parse_cpus` reads back."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
