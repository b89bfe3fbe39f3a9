# SPDX-License-Identifier: Apache-2.0
"""Whether a neighbour hurts a server, by what its host found of it: one answer for all who tell."""

from nova_vp.core.types.detection import Kind

NOBODYS_DOING = frozenset({Kind.REMOTE.value, Kind.HOST_CPU.value})
"""It lies apart from its memory, or its host takes its CPUs: no neighbour does that."""


def is_degraded(state: int | None, kind: str | None) -> bool | None:
    """By a neighbour. None: it was never measured long enough to have a state, and nobody knows.

    `kind`: of its interference, None without any; one of an agent newer than we counts.
    """
    if kind is not None and kind not in NOBODYS_DOING:
        return True
    return None if state is None else False
