# SPDX-License-Identifier: Apache-2.0
"""Builders of valid digests, reports and escalations, for tests to bend."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Protocol

from nova_vp import wire

UNKNOWN = wire.UNKNOWN_CLASS


def a_domain(
    id: int = 0,
    newcomer: float = 0.0,
    resident: float = 0.0,
    strict: float = 0.0,
    cpus: int = 4,
    vcpus: int = 0,
    of_class: Mapping[int, float] | None = None,
) -> dict[str, Any]:
    """Ratios are those for a newcomer that nobody has measured. `of_class`: what newcomers of
    other classes would lose."""
    newcomers = [round(1000 * (of_class or {}).get(n, 0.0)) for n in range(UNKNOWN)]
    return {
        "id": id,
        "free_mcores": 1000 * max(cpus - vcpus, 0),
        "cpus": cpus,
        "vcpus": vcpus,
        "newcomer": [*newcomers, round(1000 * newcomer)],
        "resident": [0] * UNKNOWN + [round(1000 * resident)],
        "strict": [0] * UNKNOWN + [round(1000 * strict)],
    }


def a_digest(
    host: str = "vp1",
    *domains: dict[str, Any],
    order: tuple[int, int] = (1, 1),
    homing: bool = True,
    known: Iterable[str] | Mapping[str, int] = (),
    seats: Mapping[str, int] | None = None,
    **fields: Any,
) -> dict[str, Any]:
    """`known`: with their classes, or without, as older agents send it. `seats`: of all of them."""
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
        **({"classes": wire.pack_classes(known)} if isinstance(known, Mapping) else {}),
        **({} if seats is None else {"seats": wire.pack_seats(seats)}),
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


VICTIM, AGGRESSOR = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"


def a_candidate(uuid: str = VICTIM, role: str = "victim", **fields: Any) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "name": "db",
        "project_id": "p1",
        "flavor": "m1.small",
        "image": "",
        "vcpus": 2,
        "role": role,
        "memory_kib": 2 << 20,
        "dirty_kib_per_s": None,
        "state": 4,
        "sensitivity": ["cache"],
        "priority": 1.0,
        "relief_ratio": 0.3,
        "others_ratio": 0.0,
        "obstacle": "",
        **fields,
    }


def an_escalation(
    id: str = "99999999-9999-5999-8999-999999999999",
    host: str = "vp1",
    *candidates: dict[str, Any],
    **fields: Any,
) -> dict[str, Any]:
    return {
        "v": wire.VERSION,
        "id": id,
        "host": host,
        "epoch": 1,
        "at": 1.8e9,
        "since": 1.8e9 - 60,
        "mode": "enforce",
        "kind": "cache",
        "victim": VICTIM,
        "evidence": {"measured_loss_ratio": 0.3},
        "rejected": [],
        "candidates": list(candidates or [a_candidate(), a_candidate(AGGRESSOR, "aggressor")]),
        **fields,
    }


def digest_text(*args: Any, **kwargs: Any) -> str:
    return wire.encode(wire.DIGEST_TOPIC, a_digest(*args, **kwargs))


def report_text(*args: Any, **kwargs: Any) -> str:
    return wire.encode(wire.REPORT_TOPIC, a_report(*args, **kwargs))


def escalation_text(*args: Any, **kwargs: Any) -> str:
    return wire.encode(wire.ESCALATION_TOPIC, an_escalation(*args, **kwargs))


def profiles_text(*learned: tuple[str, str | None, int], sent: float = 1.8e9) -> str:
    message = {"v": wire.VERSION, "sent": sent, "learned": [list(one) for one in learned]}
    return wire.encode(wire.PROFILES, message)


class NothingToSay:
    """The publisher of an agent whose news are not what is looked at."""

    def republish(self, within_s: float) -> None: ...

    def republish_digest(self, within_s: float) -> None: ...


class Accepting(Protocol):
    def accept(self, text: object, sender_host: str) -> None: ...


def hear(view: Accepting, text: str) -> None:
    """As signed by the host that it is of."""
    view.accept(text, json.loads(text)["host"])


HOUR = 1_795_435_200
"""2026-11-23 12:00 UTC."""


def a_usage_record(uuid: str = VICTIM, **fields: Any) -> dict[str, Any]:
    return {
        "meter": 7,
        "uuid": uuid,
        "project_id": "p1",
        "hour": HOUR,
        "attribution": "plain",
        "booked_s": 10.0,
        "over_s": 4.0,
        "permit_misses": 9e6,
        "pollution_misses": 2e7,
        "sure_misses": 1e7,
        "cpu_taken_core_s": 2.5,
        **fields,
    }


def a_usage(host: str = "vp1", *records: dict[str, Any]) -> dict[str, Any]:
    return {"v": wire.VERSION, "host": host, "records": list(records or [a_usage_record()])}


def usage_text(host: str = "vp1", *records: dict[str, Any]) -> str:
    return wire.encode(wire.USAGE_TOPIC, a_usage(host, *records))
