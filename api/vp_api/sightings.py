# SPDX-License-Identifier: Apache-2.0
"""One virtual platform as the host that knows it best last reported it, and how old that is.

Views build on sightings, so that hosts, lists and single servers agree about what is stale:
a report older than STALE_AFTER_S says what was, not what is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from nova_vp.db.queries import HostRecord

STALE_AFTER_S = 180


@dataclass(frozen=True, slots=True)
class Age:
    """How fresh one host's report is."""

    received_at: datetime
    age_s: int

    @property
    def is_stale(self) -> bool:
        return self.age_s > STALE_AFTER_S


@dataclass(frozen=True, slots=True)
class Sighting:
    record: HostRecord
    age: Age
    vp: Mapping[str, Any]
    """One item of the report's `vps`."""

    @property
    def server_id(self) -> str:
        return str(self.vp["uuid"])


def age_of(record: HostRecord, now: datetime) -> Age:
    # Another machine stamped it: a clock ahead of ours is no age below zero.
    age_s = max(0, round((now - record.received_at).total_seconds()))
    return Age(record.received_at, age_s)


def sightings_of(record: HostRecord, now: datetime) -> list[Sighting]:
    age = age_of(record, now)
    return [Sighting(record, age, vp) for vp in record.report["vps"]]


def latest(records: Iterable[HostRecord], now: datetime) -> list[Sighting]:
    """One per server: a host that it left may still claim it until its next report."""
    best: dict[str, Sighting] = {}
    for record in records:
        for sighting in sightings_of(record, now):
            key = sighting.server_id.lower()
            seen = best.get(key)
            if seen is None or seen.age.received_at < record.received_at:
                best[key] = sighting
    return list(best.values())
