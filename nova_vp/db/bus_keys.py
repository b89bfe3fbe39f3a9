# SPDX-License-Identifier: Apache-2.0
"""The public keys of everybody on the bus, as registered, rotated and retired by an operator."""

import math
import threading
import time
from collections.abc import Callable, Collection, Iterable
from datetime import datetime, timedelta
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from oslo_config import cfg
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from nova_vp.db.column_types import aware_utc, naive_utc
from nova_vp.db.facade import Context, open_facade
from nova_vp.db.models import BusKeyRow
from nova_vp.db.report_store import ERRORS
from nova_vp.db.upsert import upsert
from nova_vp.signing.keyring import PublicKeys, by_sender
from nova_vp.signing.senders import Process, Sender, sender_of

READ_EVERY_S = 5.0
"""So long a key that was retired may still be believed."""
RETRY_S = 1.0
"""After a sender that is not known: its key may just have been registered."""
MOST_WAIT_S = 1.0
"""For what is read again: several times what a database needs that answers."""


LONG_AGO, SECOND = datetime(1970, 1, 1), timedelta(seconds=1)


class BusKey(NamedTuple):
    sender: Sender
    text: str
    """The public key, Base64."""
    created_at: datetime
    retired_at: datetime | None
    """None: it is in use."""


class BusKeyStore:
    """The keys in `[database] connection`. Thread-safe; opens on first use."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._facade = open_facade(conf)

    def add(self, keys: Iterable[tuple[Sender, str]], now: datetime) -> None:
        """In use from now on, beside those that their senders have. One that was retired stays
        so."""
        created = naive_utc(now.replace(microsecond=0))
        with self._facade.writer.using(Context()) as session:
            newest = _newest(session)
            rows = [
                {
                    "sender": str(sender),
                    "public_key": text,
                    # Later than all others of its sender, also of the same second.
                    "created_at": max(created, newest.get(str(sender), LONG_AGO) + SECOND),
                    "retired_at": None,
                }
                for sender, text in keys
            ]
            upsert(session, BusKeyRow, rows, ("created_at",))

    def retire(self, sender: Sender, now: datetime, *, keep: Collection[str] = ()) -> int:
        """Its keys in use, but those to be kept, are never believed again. How many they were."""
        row = BusKeyRow
        of_sender = (row.sender == str(sender), row.retired_at.is_(None))
        retired = update(row).where(*of_sender, row.public_key.not_in(list(keep)))
        with self._facade.writer.using(Context()) as session:
            found = session.execute(
                retired.values(retired_at=naive_utc(now.replace(microsecond=0))),
                execution_options={"synchronize_session": False},
            )
            return int(found.rowcount)

    def list_all(self) -> list[BusKey]:
        """Retired ones too, by sender and age."""
        row = BusKeyRow
        with self._facade.reader.using(Context()) as session:
            found = select(row).order_by(row.sender, row.created_at, row.public_key)
            return [
                BusKey(
                    sender_of(one.sender),
                    one.public_key,
                    aware_utc(one.created_at),
                    aware_utc(one.retired_at) if one.retired_at else None,
                )
                for one in session.scalars(found)
            ]

    def in_use(self, process: Process | None = None) -> list[tuple[Sender, str]]:
        """Sender and public key, of one program or of all."""
        row = BusKeyRow
        wanted = select(row.sender, row.public_key).where(row.retired_at.is_(None))
        if process:
            wanted = wanted.where(row.sender.startswith(f"{process}/", autoescape=True))
        with self._facade.reader.using(Context()) as session:
            found = session.execute(wanted.order_by(row.sender, row.public_key))
            return [(sender_of(name), text) for name, text in found]


def _newest(session: Session) -> dict[str, datetime]:
    """When the last key of each sender was made."""
    row = BusKeyRow
    found = session.execute(select(row.sender, func.max(row.created_at)).group_by(row.sender))
    return {sender: at for sender, at in found}


class StoredKeys:
    """`nova_vp.signing.envelope.Keys` out of the database, read again every few seconds.

    While the database is away, what was read last holds.
    """

    def __init__(self, store: BusKeyStore, clock: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._clock = clock
        self._lock = threading.Lock()
        self._reading: threading.Thread | None = None
        self._keys: PublicKeys = {}
        self._read_at_s = -math.inf

    def of(self, sender: Sender) -> Collection[Ed25519PublicKey]:
        """Waits for the database MOST_WAIT_S at most, and of those whose sender is known only one
        for each time that it is read."""
        is_known = sender in self._keys
        if self._clock() - self._read_at_s >= (READ_EVERY_S if is_known else RETRY_S):
            reading, is_new = self._reading_thread()
            if is_new or not is_known:
                reading.join(MOST_WAIT_S)
        return self._keys.get(sender, ())

    def _reading_thread(self) -> tuple[threading.Thread, bool]:
        """And whether it has just been started."""
        with self._lock:
            if self._reading is not None:
                return self._reading, False
            self._reading = threading.Thread(target=self._read, name="keys", daemon=True)
            self._reading.start()
            return self._reading, True

    def _read(self) -> None:
        asked_at_s = self._clock()
        try:
            self._keys = by_sender(self._store.in_use())
        except ERRORS:
            pass
        finally:
            with self._lock:
                self._read_at_s, self._reading = asked_at_s, None
