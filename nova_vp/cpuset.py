# SPDX-License-Identifier: Apache-2.0
"""CPU lists as libvirt and the kernel write them (`0-3,8,^2`), to and from sets. Pure.

The one place where such a list is read or written: agent, simulator and lab share it.
"""

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
        target.update(_range(part, first, last if dash else first))
    return frozenset(included - excluded)


def _range(part: str, first: str, last: str) -> range:
    if not (first.isdecimal() and last.isdecimal() and int(first) <= int(last) <= MAX_CPU):
        raise ValueError(f"{part[:40]!r} is not a CPU or a range of them, such as 8 or 0-3")
    return range(int(first), int(last) + 1)


def format_cpus(cpus: Iterable[int]) -> str:
    """`0-2,5`; what `parse_cpus` reads back."""
    runs: list[list[int]] = []
    for cpu in sorted(cpus):
        if runs and cpu == runs[-1][1] + 1:
            runs[-1][1] = cpu
        else:
            runs.append([cpu, cpu])
    return ",".join(str(low) if low == high else f"{low}-{high}" for low, high in runs)
