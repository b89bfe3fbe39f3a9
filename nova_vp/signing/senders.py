# SPDX-License-Identifier: Apache-2.0
"""The processes on the bus, their names, and which calls each of them may make."""

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from nova_vp import wire

MOST_NAME = 200
_UNIQUE = re.compile("[0-9a-f]{32}")


class Process(StrEnum):
    """The programs that send or listen. A private key belongs to one of them on one machine."""

    AGENT = "vp-agent"
    SCHEDULER = "vp-scheduler"
    API = "vp-api"
    NOVA_SCHEDULER = "nova-scheduler"


class Sender(NamedTuple):
    """A program on a machine. `host`: of an agent, nova-compute's host name."""

    process: Process
    host: str

    def __str__(self) -> str:
        return f"{self.process}/{self.host}"

    @property
    def answer_prefix(self) -> str:
        """Of the addresses at which it waits for answers; a UUID's 32 digits follow."""
        return f"{self.process}.{self.host}."

    def waits_at(self, address: str) -> bool:
        prefix = self.answer_prefix
        return address.startswith(prefix) and _UNIQUE.fullmatch(address[len(prefix) :]) is not None


def sender_of(name: str) -> Sender:
    """Of `vp-agent/HOST`. Raises ValueError."""
    process, slash, host = name.partition("/")
    # A folder is named after it, and queues, whose names have 255 characters at most.
    is_name = wire.is_host_name(host) and host not in (".", "..") and len(name) <= MOST_NAME
    if not slash or process not in set(Process):
        known = ", ".join(f"{one}/HOST" for one in Process)
        raise ValueError(f"{name!r} names no sender: give one of {known}")
    if not is_name:
        raise ValueError(
            f"{host!r} is no host name: give letters, digits and _ . : @ - alone, "
            f"{MOST_NAME} characters at most with {process}/"
        )
    return Sender(Process(process), host)


_AGENT = frozenset({Process.AGENT})
_SCHEDULER = frozenset({Process.SCHEDULER})
_OPERATORS = frozenset({Process.API})

MAY_CALL: Mapping[str, frozenset[Process]] = {
    "digest": _AGENT,
    "report": _AGENT,
    "escalate": _AGENT,
    "usage": _AGENT,
    "profiles": _SCHEDULER,
    "host_keys": _SCHEDULER,
    "scheduler_started": frozenset({Process.NOVA_SCHEDULER}),
    "set_mode": _OPERATORS,
    "accept": _OPERATORS,
    "reject": _OPERATORS,
    "undo": _OPERATORS,
    "set_overrides": _OPERATORS | _SCHEDULER,
    "set_facts": _SCHEDULER,
    "set_modes": _SCHEDULER,
    "report_latency": _OPERATORS,
    "set_overlays": _OPERATORS | _SCHEDULER,
    "call_overlay": _OPERATORS | _SCHEDULER,
    "call_elsewhere": _AGENT,
    "prepare_migration": _SCHEDULER,
    "end_migration": _SCHEDULER,
    "republish": _SCHEDULER,
    "republish_digest": frozenset({Process.SCHEDULER, Process.NOVA_SCHEDULER}),
    "answer": frozenset({Process.AGENT, Process.SCHEDULER}),
}
"""A call that is not listed here is refused, whoever signed it."""

ORDERED = frozenset(
    {
        "digest",
        "report",
        "escalate",
        "usage",
        "scheduler_started",
        "report_latency",
        "call_overlay",
        "call_elsewhere",
        "answer",
    }
)
"""Calls that may wait in a queue while their receiver starts, and whose repetition changes
nothing: the first two carry (epoch, sequence), of which the newest wins, the third an id that the
ledger knows, the fourth amounts of which the largest counts, the fifth only asks, the sixth carries
the moment of a measurement, of which the latest wins and no old one counts, the seventh and the
eighth an id that is answered once and the moment of its sending, after which it soon counts no
more, and an answer the id of a call that waits for it, which takes one. Their number is not limited
either: many applications report and call through one vp-api, and one vp-scheduler."""
