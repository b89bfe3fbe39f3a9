# SPDX-License-Identifier: Apache-2.0
"""Builders of valid digests and reports, for tests to bend."""

from collections.abc import Iterable
from typing import Any

from nova_vp import wire

UNKNOWN = wire.UNKNOWN_CLASS


def a_domain(
    id: int = 0,
    newcomer: float = 0.0,
    resident: float = 0.0,
    strict: float = 0.0,
    cpus: int = 4,
    vcpus: int = 0,
) -> dict[str, Any]:
    """Ratios are those for a newcomer that nobody has measured."""
    return {
        "id": id,
        "free_mcores": 1000 * max(cpus - vcpus, 0),
        "cpus": cpus,
        "vcpus": vcpus,
        "newcomer": [0] * UNKNOWN + [round(1000 * newcomer)],
        "resident": [0] * UNKNOWN + [round(1000 * resident)],
        "strict": [0] * UNKNOWN + [round(1000 * strict)],
    }


def a_digest(
    host: str = "vp1",
    *domains: dict[str, Any],
    order: tuple[int, int] = (1, 1),
    homing: bool = True,
    known: Iterable[str] = (),
    **fields: Any,
) -> dict[str, Any]:
    return {
        "v": wire.VERSION,
        "host": host,
        "epoch": order[0],
        "seq": order[1],
        "mode": "observe",
        "homing": homing,
        "age_ms": 0,
        "domains": list(domains or [a_domain()]),
        "known": wire.pack_known(known),
        **fields,
    }


def a_report(
    host: str = "vp1", order: tuple[int, int] = (1, 1), mode: str = "observe", **fields: Any
) -> dict[str, Any]:
    return {
        "v": wire.VERSION,
        "host": host,
        "epoch": order[0],
        "seq": order[1],
        "mode": mode,
        "at": 1.8e9,
        "counters": {"source": "vpmu", "problems": []},
        "actuator": "kernel",
        "domains": [],
        "vps": [],
        "proposals": [],
        **fields,
    }


def digest_text(*args: Any, **kwargs: Any) -> str:
    return wire.encode(wire.DIGEST_TOPIC, a_digest(*args, **kwargs))


def report_text(*args: Any, **kwargs: Any) -> str:
    return wire.encode(wire.REPORT_TOPIC, a_report(*args, **kwargs))
