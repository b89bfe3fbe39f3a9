# SPDX-License-Identifier: Apache-2.0
"""The escalations that stand, on disk, until the cluster has taken each of them over.

One file, replaced whole, fsynced. An escalation that the agent's last run wrote down keeps its id
once its victim is found hurt again; what the cluster has acknowledged is not sent again while it
stands. Where the disk refuses, it goes on from memory and says so.
"""

import json
import logging
import math
import threading
import uuid as uuids
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Any

from nova_vp import wire
from nova_vp.core.types.detection import Kind
from nova_vp.printable import fault

LOG = logging.getLogger(__name__)
NAMESPACE = uuids.UUID("5b7a9d4e-5a0c-5d0e-9a53-0f5e6c1d2b3a")
MOST = 64
"""Escalations kept: a host with more victims than that tells of the first ones."""
GRACE_S = 15.0
"""For so long an escalation stands although its victim is not seen hurt: it may be so again."""
INHERIT_S = 90.0
"""For so long after a start those of the last run stand: detection has to come to them anew."""
AGAIN_S = 900.0
"""So long after the cluster tried in vain, a victim that is still hurt may be escalated anew; where
it helped, after GRACE_S: by then the migration has shown, and harm is another one."""
_FAULTS = (ValueError, KeyError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True)
class Entry:
    id: str
    victim: str
    kind: str
    text: str = ""
    """The message, until it is acknowledged; empty before it is written."""
    is_acknowledged: bool = False
    until_s: float = 0.0
    """It stands until then, if it is not seen again; monotonic."""
    is_seen: bool = False
    """By this run; before that nobody knows whether it stands."""
    again_s: float | None = None
    """The cluster is through with it: from then on it may be told anew."""
    is_helped: bool = False
    """The cluster is through with it, and moved somebody."""

    @property
    def is_spent(self) -> bool:
        return self.again_s is not None

    @property
    def is_waiting(self) -> bool:
        return self.is_seen and bool(self.text) and not (self.is_acknowledged or self.is_spent)


class Outbox:
    """Thread-safe."""

    def __init__(
        self, read: Callable[[], str | None], write: Callable[[str], None], now_s: float
    ) -> None:
        """`read`, `write`: the file's whole text; `write` raises OSError."""
        self._write = write
        self._is_failing = False
        self._lock = threading.Lock()
        self._entries = {entry.id: entry for entry in _entries(read(), now_s)}

    def __len__(self) -> int:
        return len(self._entries)

    def stands(self, id: str) -> bool | None:
        """Whether its victim is still hurt as it was, and the cluster not through with it; None: of
        one of the last run, nobody knows yet."""
        entry = self._entries.get(id)
        if entry is None or entry.is_spent:
            return False
        return True if entry.is_seen else None

    def waiting(self) -> tuple[Entry, ...]:
        """Those to be sent, the first first."""
        with self._lock:
            return tuple(entry for entry in self._entries.values() if entry.is_waiting)

    def find(self, victim: str, kind: Kind) -> Entry | None:
        """The one that stands for this victim."""
        with self._lock:
            entries = self._entries.values()
            return next((e for e in entries if (e.victim, e.kind) == (victim, kind.value)), None)

    def see(self, hurt: Collection[tuple[str, str]], now_s: float) -> None:
        """Victims that are hurt now, each with the kind."""
        with self._lock:
            for entry in self._entries.values():
                if (entry.victim, entry.kind) in hurt:
                    until_s = max(entry.until_s, now_s + GRACE_S)
                    self._entries[entry.id] = replace(entry, until_s=until_s, is_seen=True)

    def add(self, id: str, victim: str, kind: Kind, text: str, now_s: float) -> bool:
        """False: too many stand already."""
        with self._lock:
            if len(self._entries) >= MOST:
                return False
            until_s = now_s + GRACE_S
            self._entries[id] = Entry(id, victim, kind.value, text, until_s=until_s, is_seen=True)
            self._save()
            return True

    def acknowledge(self, id: str) -> None:
        """The cluster has it; it may have ended meanwhile."""
        with self._lock:
            if id in self._entries:
                self._entries[id] = replace(self._entries[id], text="", is_acknowledged=True)
                self._save()

    def spend(self, id: str, now_s: float, *, is_helped: bool) -> None:
        """The cluster is through with it; for a while it is not told again."""
        with self._lock:
            if id in self._entries:
                again_s = now_s + _wait_s(is_helped)
                entry = replace(self._entries[id], again_s=again_s, is_helped=is_helped)
                self._entries[id] = entry
                self._save()

    def forget_ended(self, now_s: float) -> tuple[Entry, ...]:
        """Those whose victims are well or gone, and those that may be told anew. What was not sent
        by now is not sent."""
        with self._lock:
            ended = tuple(entry for entry in self._entries.values() if _is_over(entry, now_s))
            for entry in ended:
                del self._entries[entry.id]
            if ended:
                self._save()
            return ended

    def _save(self) -> None:
        try:
            self._write(_text(self._entries.values()))
            self._is_failing = False
        except OSError as exc:
            if not self._is_failing:
                LOG.error(
                    "escalations are not saved (%s) and would be sent again after a restart: free "
                    "space in [agent] state_directory",
                    exc,
                )
            self._is_failing = True


def _is_over(entry: Entry, now_s: float) -> bool:
    again_s = math.inf if entry.again_s is None else entry.again_s
    return min(entry.until_s, again_s) < now_s


def _wait_s(is_helped: bool) -> float:
    return GRACE_S if is_helped else AGAIN_S


def id_of(host: str, epoch: int, core_id: str) -> str:
    """Unique in the cloud."""
    return str(uuids.uuid5(NAMESPACE, f"{host} {epoch} {core_id}"))


def _text(entries: Iterable[Entry]) -> str:
    kept = ("id", "victim", "kind", "text", "is_acknowledged", "is_spent", "is_helped")
    rows = [{key: getattr(entry, key) for key in kept} for entry in entries]
    return json.dumps({"v": wire.VERSION, "escalations": rows})


def _entries(text: str | None, now_s: float) -> list[Entry]:
    if text is None:
        return []
    try:
        return [_entry(row, now_s) for row in json.loads(text)["escalations"]][:MOST]
    except _FAULTS as exc:
        LOG.warning(
            "escalations.json is damaged (%s) and left out; nothing need be done: what still holds "
            "is found and escalated again",
            fault(exc),
        )
        return []


def _entry(row: dict[str, Any], now_s: float) -> Entry:
    """Raises one of _FAULTS."""
    is_helped = bool(row.get("is_helped"))
    entry = Entry(
        id=str(uuids.UUID(row["id"])),
        victim=str(row["victim"]),
        kind=Kind(row["kind"]).value,
        text=str(row["text"]),
        is_acknowledged=bool(row["is_acknowledged"]),
        until_s=now_s + INHERIT_S,
        again_s=now_s + _wait_s(is_helped) if row["is_spent"] else None,
        is_helped=is_helped,
    )
    if not entry.text.isascii():
        raise ValueError(f"the message of {entry.id} is not ASCII")
    return entry
