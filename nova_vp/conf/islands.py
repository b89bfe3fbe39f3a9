# SPDX-License-Identifier: Apache-2.0
"""`[islands]`: sets of a host's CPUs with a scheduler kind each, and the cap of the host.

Whether the host has the CPUs is checked where its hardware is known (`core.model.islands.faults`).
"""

import re
from dataclasses import replace

from oslo_config import cfg

from nova_vp.core.types.island import Island, Scheduler
from nova_vp.core.types.policy import Policy
from nova_vp.cpuset import format_cpus, parse_cpus

GROUP = "islands"
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
EXAMPLE = "web: 0-7 fair; batch: 8-15 capped 4.0; voice: 16-19 exclusive"


def read_islands(text: str) -> tuple[Island, ...]:
    """Raises ValueError, which says what to write."""
    found: list[Island] = []
    for part in filter(None, (part.strip() for part in text.split(";"))):
        island = _island(part)
        for other in found:
            if other.name == island.name:
                raise ValueError(f"two islands are {island.name!r}: give each a name of its own")
            if both := other.own_cpus & island.own_cpus:
                raise ValueError(
                    f"CPU {format_cpus(both)} is in {other.name} and in {island.name}: a CPU is "
                    "in one island at most"
                )
        found.append(island)
    return tuple(found)


def _island(part: str) -> Island:
    """Raises ValueError."""
    name, _, rest = part.partition(":")
    fields = rest.split()
    if not _NAME.fullmatch(name.strip()) or not 1 <= len(fields) <= 3:
        raise ValueError(f"{part!r} is no island: write NAME: CPUS KIND, such as {EXAMPLE!r}")
    cpus = parse_cpus(fields[0])
    if not cpus:
        raise ValueError(f"{part!r} names no CPU")
    kinds = {one.value: one for one in Scheduler}
    kind = kinds.get(fields[1] if fields[1:] else Scheduler.FAIR.value)
    if kind is None:
        raise ValueError(f"{fields[1]!r} is no kind of island: use {', '.join(kinds)}")
    return Island(name.strip(), cpus, kind, _cap(part, kind, cpus, fields[2:]))


def _cap(part: str, kind: Scheduler, cpus: frozenset[int], fields: list[str]) -> float | None:
    """Raises ValueError."""
    if (kind is Scheduler.CAPPED) is not bool(fields):
        raise ValueError(f"{part!r}: kind capped needs the cores that it may use, others none")
    if not fields:
        return None
    try:
        cores = float(fields[0])
    except ValueError:
        cores = 0.0
    if not 0.0 < cores <= len(cpus):
        raise ValueError(f"{part!r}: {fields[0]!r} is no number of cores up to {len(cpus)}")
    return cores


class IslandsType(cfg.types.ConfigType):  # type: ignore[misc]
    """As `read_islands`."""

    def __init__(self) -> None:
        super().__init__(type_name="islands")

    def __call__(self, value: object) -> tuple[Island, ...]:
        return value if isinstance(value, tuple) else read_islands(str(value))

    def __repr__(self) -> str:
        return "Islands"

    def _formatter(self, value: object) -> str:
        return str(value)


ISLANDS_OPTS = [
    cfg.Opt(
        "layout",
        type=IslandsType(),
        default="",
        help="Islands of the host's CPUs, separated by semicolons: name, CPUs, kind, and for the "
        f"kind `capped` the cores that its servers may use together. Example: `{EXAMPLE}`. "
        "`fair` shares CPUs by weight, `exclusive` gives each vCPU a CPU of its own. A server "
        "stays within one island. Empty, the default, makes one `fair` island of each LLC domain, "
        "and servers may span them. Caps and exclusive CPUs need the controller `overlays`.",
    ),
    cfg.FloatOpt(
        "host_cap_cores",
        min=0.0,
        help="Cores that all servers in islands may use together; 0: all. Each island has a share "
        "by its CPUs, which follows a CPU that it borrows; islands that a server joins use theirs "
        "together. Servers whose flavor sets no `vp:` key count with all that Nova gave them, "
        "and are never limited. Needs the controller `overlays`.",
        default=0.0,
    ),
]
for _option in ISLANDS_OPTS:
    _option.mutable = True


def register_opts(conf: cfg.ConfigOpts) -> None:
    conf.register_opts(ISLANDS_OPTS, group=GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [(GROUP, ISLANDS_OPTS)]


def with_islands(policy: Policy, conf: cfg.ConfigOpts) -> Policy:
    section = conf[GROUP]
    return replace(policy, islands=section.layout, host_cap_cores=section.host_cap_cores or None)
