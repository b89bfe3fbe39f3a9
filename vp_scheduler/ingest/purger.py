# SPDX-License-Identifier: Apache-2.0
"""Deletes what is too old by and by, in small steps between which the reports have their turn."""

import logging
import random
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Protocol

from oslo_config import cfg

from nova_vp.db.purge import Before, Step
from nova_vp.db.report_store import ERRORS

LOG = logging.getLogger(__name__)
EVERY_S = 3600.0
PAUSE_S = 0.1


class Purging(Protocol):
    def purge(self, before: Before, now: datetime) -> Iterator[Step]: ...


class Purger:
    def __init__(self, conf: cfg.ConfigOpts, store: Purging) -> None:
        self._settings = conf.vp_scheduler
        self._store = store
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="purge", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        self._stop.set()
        self._thread.join(timeout_s)

    def _run(self) -> None:
        # At a moment of its own: several vp-schedulers shall not purge all at once.
        while not self._stop.wait(EVERY_S * random.random()):
            try:
                self.clean(datetime.now(UTC))
            except ERRORS as exc:
                LOG.warning("not purged, tried again within an hour: %s", exc)

    def clean(self, now: datetime) -> None:
        """Returns early when it is told to stop."""
        settings = self._settings
        days = settings.history_days, settings.ledger_days, settings.usage_days
        for step in self._store.purge(Before.days_ago(now, *days), now):
            LOG.debug("purged %d rows of %s", step.rows, step.table)
            if self._stop.wait(PAUSE_S):
                return
