# SPDX-License-Identifier: Apache-2.0
"""Second implementations of the seams, in memory: for tests here and in other projects.

They behave as the real ones do, failures included; nothing in production imports them.
"""

from collections.abc import Iterable

from nova_vp.db.queries import HostRecord


class MemoryStore:
    """The latest report of each host, by name."""

    def __init__(self, records: Iterable[HostRecord] = ()) -> None:
        self._records: dict[str, HostRecord] = {}
        for record in records:
            self.save(record)

    def save(self, record: HostRecord) -> None:
        self._records[record.host] = record

    def list_hosts(self) -> list[HostRecord]:
        return [self._records[name] for name in sorted(self._records)]

    def get_host(self, name: str) -> HostRecord | None:
        return self._records.get(name)


class MemoryAgents:
    """Agents that answer at once, unless `failing` says how they fail."""

    def __init__(self) -> None:
        self.modes: dict[str, str] = {}
        self.accepted: list[tuple[str, str]] = []
        self.failing: dict[str, Exception] = {}

    def set_mode(self, host: str, mode: str) -> None:
        self._fail(host)
        self.modes[host] = mode

    def accept(self, host: str, action_id: str) -> None:
        self._fail(host)
        self.accepted.append((host, action_id))

    def _fail(self, host: str) -> None:
        if host in self.failing:
            raise self.failing[host]
