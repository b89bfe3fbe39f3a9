# SPDX-License-Identifier: Apache-2.0
"""How well a process is, as `application/health+json` (draft-inadarei-api-health-check) has it.

A check says what was looked at and, unless it passed, what it means and what to do; never an URL, a
password or what a library said. Asking must be cheap: whoever asks does so every few seconds.
"""

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

MEDIA_TYPE = "application/health+json"


class Status(enum.Enum):
    PASS = "pass"
    WARN = "warn"
    """It does its work, and something needs a look."""
    FAIL = "fail"
    """It does not do what it is for."""


_FROM_GOOD_TO_BAD = tuple(Status)


@dataclass(frozen=True, slots=True)
class Check:
    component: str
    measurement: str
    status: Status
    output: str = ""
    """What is wrong and what to do; empty: nothing is."""
    observed: float | None = None
    unit: str = ""

    @property
    def name(self) -> str:
        return f"{self.component}:{self.measurement}"


@dataclass(frozen=True, slots=True)
class Health:
    """Of one process, at one moment."""

    service_id: str
    """Which of its kind: the host's name."""
    description: str
    checks: tuple[Check, ...]

    @property
    def status(self) -> Status:
        return max(
            (c.status for c in self.checks), key=_FROM_GOOD_TO_BAD.index, default=Status.PASS
        )

    @property
    def http_status(self) -> int:
        """Those who only look at this number must not take a warning for the end."""
        return 503 if self.status is Status.FAIL else 200


Look = Callable[[], Health]


def document(health: Health, release: str, at: datetime) -> dict[str, Any]:
    """As JSON has it."""
    told = public_document(health, at)
    return {**told, "releaseId": release, "serviceId": health.service_id}


def public_document(health: Health, at: datetime) -> dict[str, Any]:
    """For whoever asks: neither which host answers nor by which release."""
    moment = at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "status": health.status.value,
        "version": "1",
        "description": health.description,
        "checks": _by_name(health.checks, moment),
    }


def _by_name(checks: Iterable[Check], moment: str) -> Mapping[str, list[dict[str, Any]]]:
    told: dict[str, list[dict[str, Any]]] = {}
    for check in checks:
        told.setdefault(check.name, []).append(_told(check, moment))
    return told


def _told(check: Check, moment: str) -> dict[str, Any]:
    row: dict[str, Any] = {"status": check.status.value, "time": moment}
    if check.output:
        row["output"] = check.output
    if check.observed is not None:
        row |= {"observedValue": round(check.observed, 3), "observedUnit": check.unit}
    return row


def bus_check(is_reachable: bool | None, is_listening: bool = True) -> Check:
    """`is_reachable`: None where nobody can tell. A process without its bus goes on by itself."""
    if is_reachable is False:
        told = "no broker of [bus] transport_url answers: check RabbitMQ and the network"
    elif not is_listening:
        told = "no message has arrived yet: check user, password and vhost in [bus] transport_url"
    else:
        return Check("bus", "connection", Status.PASS)
    return Check("bus", "connection", Status.WARN, told)


def database_check(is_answering: bool) -> Check:
    if is_answering:
        return Check("database", "connection", Status.PASS)
    told = "no answer: check [database] connection, and that `vp-manage db sync` was run"
    return Check("database", "connection", Status.FAIL, told)
