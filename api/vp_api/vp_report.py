# SPDX-License-Identifier: Apache-2.0
"""One virtual platform as the host that knows it best last reported it, and how old that is.

Views build on these, so that hosts, lists and single servers agree about what is stale: a report
older than STALE_AFTER_S says what was, not what is.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from nova_vp.db.records import HostRecord, VpHead
from nova_vp.degradation import degradation_of
from nova_vp.interference import is_degraded
from nova_vp.service_levels import service_of

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
class VpReport:
    record: HostRecord
    age: Age
    vp: Mapping[str, Any]
    """One item of the report's `vps`."""

    @property
    def server_id(self) -> str:
        return str(self.vp["uuid"])

    @property
    def head(self) -> VpHead:
        """As the list of VPs has it."""
        vp, since = self.vp, self.vp["since"]
        found = vp["interference"]
        return VpHead(
            uuid=self.server_id,
            host=self.record.host,
            project_id=vp["project_id"],
            name=vp["name"],
            isolation=vp["isolation"],
            state=vp["state"],
            since=None if since is None else int(since),
            incomplete=vp["incomplete"],
            is_hurt=is_degraded(vp["state"], found and found["kind"]),
            received_at=self.record.received_at,
            group=vp.get("group", ""),
            service=service_of(self.record.report, vp),
            degradation=degradation_of(self.record.report, vp),
        )


def age_of(received_at: datetime, now: datetime) -> Age:
    # Another machine stamped it: a clock ahead of ours is no age below zero.
    return Age(received_at, max(0, round((now - received_at).total_seconds())))


def fresh_since(now: datetime) -> datetime:
    return now - timedelta(seconds=STALE_AFTER_S)


def vp_reports_of(record: HostRecord, now: datetime) -> list[VpReport]:
    age = age_of(record.received_at, now)
    return [VpReport(record, age, vp) for vp in record.report["vps"]]
