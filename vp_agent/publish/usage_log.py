# SPDX-License-Identifier: Apache-2.0
"""What servers are billed for, counted by this host: by server, hour and attribution.

One file, replaced whole, fsynced. Only what is in the file is sent, so that the database never
knows more than a next run of the agent begins with; the amounts only grow, so that nothing is
counted twice. What the database has of an hour that is over is forgotten. Where the file is lost,
or the clock goes back to an hour that was forgotten, the agent counts anew, as another meter.
"""

import json
import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from nova_vp import wire
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.usage import AMOUNTS, Usage, total
from nova_vp.printable import fault
from vp_agent.checked_numbers import measured

LOG = logging.getLogger(__name__)
MOST_RECORDS = 20_000
"""Kept while the database does not take them: some days of a full host."""
SETTLED_S = 120.0
"""So long after an hour nothing is added to it any more."""
LEFT_OUT_S = 7200.0
"""So long after an hour, what the database leaves out is given up."""
_FAULTS = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


class Key(NamedTuple):
    meter: int
    uuid: str
    project_id: str
    hour: int
    attribution: str

    @property
    def end_s(self) -> int:
        return self.hour + wire.HOUR_S


class UsageLog:
    """Thread-safe."""

    def __init__(
        self, read: Callable[[], str | None], write: Callable[[str], None], epoch: int
    ) -> None:
        """`read`, `write`: the file's whole text; `write` raises OSError. `epoch`: of this run."""
        self._write = write
        self._lock = threading.Lock()
        found = _file(read())
        self._meter = found.meter or epoch
        self._forgotten = found.forgotten
        """The latest hour of which something was forgotten."""
        self._now: dict[Key, Usage] = dict(found.records)
        self._saved: dict[Key, Usage] = dict(found.records)
        self._taken: dict[Key, Usage] = {}
        """As the database has them."""
        self._left_out: dict[str, str] = {}
        """By server: why the database did not take its records."""
        self._is_failing = False

    def add(self, decision: Decision, epoch_s: float) -> None:
        """From the tick, which ended at that moment of the Unix epoch."""
        hour = max(0, int(epoch_s) // wire.HOUR_S * wire.HOUR_S)
        with self._lock:
            if hour <= self._forgotten:
                self._meter, self._forgotten = self._meter + 1, 0
            for view in decision.vps:
                project_id = view.guest.project_id[:64]
                for one in view.usage if project_id else ():
                    key = Key(self._meter, view.guest.uuid, project_id, hour, one.attribution)
                    self._now[key] = total(self._now.get(key, Usage(one.attribution)), one)

    def save(self, epoch_s: float) -> None:
        """Never raises: where the disk refuses, nothing more is sent until it takes it."""
        with self._lock:
            self._forget(epoch_s)
            now = dict(self._now)
            text = "" if now == self._saved else _text(_File(self._meter, self._forgotten, now))
        if not text:
            return
        try:
            self._write(text)
        except OSError as exc:
            if not self._is_failing:
                LOG.error(
                    "usage is not saved (%s), and not sent before it is: free space in [agent] "
                    "state_directory",
                    exc,
                )
            self._is_failing = True
        else:
            self._saved, self._is_failing = now, False

    def unsent(self) -> Iterator[dict[Key, Usage]]:
        """What the database does not have, the oldest first, a message's worth at a time. From the
        thread that saves."""
        waiting = sorted(
            (key for key, used in self._saved.items() if self._taken.get(key) != used),
            key=lambda key: (key.hour, key),
        )
        for begin in range(0, len(waiting), wire.MAX_USAGE_RECORDS):
            batch = waiting[begin : begin + wire.MAX_USAGE_RECORDS]
            yield {key: self._saved[key] for key in batch}

    def note_taken(self, batch: Mapping[Key, Usage], left_out: Mapping[str, str]) -> None:
        """`left_out`: why, by server. From the thread that saves."""
        for key, used in batch.items():
            why = left_out.get(key.uuid)
            if why is None:
                self._taken[key] = used
                self._left_out.pop(key.uuid, None)
            elif self._left_out.get(key.uuid) != why:
                self._left_out[key.uuid] = why
                LOG.warning("vp=%s its usage is not taken yet: %s", key.uuid, why)

    def _forget(self, epoch_s: float) -> None:
        """With the lock held."""
        for key in [key for key in self._now if key.end_s + SETTLED_S < epoch_s]:
            is_taken = self._taken.get(key) == self._now[key]
            is_given_up = key.uuid in self._left_out and key.end_s + LEFT_OUT_S < epoch_s
            if is_given_up and not is_taken:
                LOG.error("vp=%s usage of an hour is lost: %s", key.uuid, self._left_out[key.uuid])
            if is_taken or is_given_up:
                self._drop(key)
        for key in sorted(self._now, key=lambda key: key.hour)[:-MOST_RECORDS]:
            LOG.error("vp=%s usage of an hour is lost: the database takes none", key.uuid)
            self._drop(key)
        self._left_out = {
            uuid: why
            for uuid, why in self._left_out.items()
            if any(key.uuid == uuid for key in self._now)
        }

    def _drop(self, key: Key) -> None:
        del self._now[key]
        self._forgotten = max(self._forgotten, key.hour)
        self._taken.pop(key, None)


def message(host: str, batch: Mapping[Key, Usage]) -> str:
    """Raises wire.BadMessage."""
    told = {"v": wire.VERSION, "host": host, "records": _rows(batch)}
    return wire.encode(wire.USAGE_TOPIC, told)


def _rows(records: Mapping[Key, Usage]) -> list[dict[str, Any]]:
    return [{**key._asdict(), **used._asdict()} for key, used in records.items()]


class _File(NamedTuple):
    meter: int = 0
    """0: there is none."""
    forgotten: int = 0
    records: Mapping[Key, Usage] = {}


def _text(file: _File) -> str:
    return json.dumps({"v": wire.VERSION, **file._asdict(), "records": _rows(file.records)})


def _file(text: str | None) -> _File:
    if text is None:
        return _File()
    try:
        told = json.loads(text)
        meter, forgotten = (int(measured(told[name])) for name in ("meter", "forgotten"))
        return _File(meter, forgotten, dict(map(_record, told["records"])))
    except _FAULTS as exc:
        LOG.error(
            "usage.json is damaged (%s) and left out: what it had and the database has not is lost",
            fault(exc),
        )
        return _File()


def _record(row: Mapping[str, Any]) -> tuple[Key, Usage]:
    """Raises one of _FAULTS."""
    texts = [str(row[name]) for name in ("uuid", "project_id", "attribution")]
    uuid, project_id, attribution = texts
    if not all(text.isascii() and text for text in texts):
        raise ValueError(f"the record of {uuid} is none")
    used = Usage(attribution, *(measured(row[name]) for name in AMOUNTS))
    meter, hour = (int(measured(row[name])) for name in ("meter", "hour"))
    return Key(meter, uuid, project_id, hour, attribution), used
