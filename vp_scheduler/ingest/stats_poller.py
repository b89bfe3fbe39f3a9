# SPDX-License-Identifier: Apache-2.0
"""Looks at the database every now and then, for those who ask how the service is.

On a thread of its own: a database that hangs must hold up neither a scrape nor the reports.
"""

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

from nova_vp.db.report_store import ERRORS
from nova_vp.db.stats import Stats

LOG = logging.getLogger(__name__)
EVERY_S = 10.0
HANGS_AFTER_S = 5.0
"""Several times what a look takes in the largest cloud."""


class Surveying(Protocol):
    def survey(self, now: datetime) -> Stats: ...


@dataclass(frozen=True, slots=True)
class Snapshot:
    survey: Stats | None
    """The last one that there was; None: none yet."""
    at_s: float | None
    """When it was made, monotonic."""
    has_failed: bool
    """The look after it did."""


class StatsPoller:
    def __init__(
        self,
        surveyor: Surveying,
        every_s: float = EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._surveyor = surveyor
        self._every_s = every_s
        self._clock = clock
        self._looking_since_s: float | None = None
        self._seen = Snapshot(None, None, has_failed=False)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="lookout", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self, timeout_s: float = 1.0) -> None:
        self._stop.set()
        self._thread.join(timeout_s)

    def seen(self) -> Snapshot:
        return self._seen

    def is_database_well(self) -> bool:
        """Not if the last look failed, nor if it hangs."""
        since_s = self._looking_since_s
        hangs = since_s is not None and self._clock() - since_s >= HANGS_AFTER_S
        return not hangs and not self._seen.has_failed

    def look(self) -> None:
        self._looking_since_s = self._clock()
        try:
            self._survey()
        finally:
            self._looking_since_s = None

    def _survey(self) -> None:
        try:
            survey = self._surveyor.survey(datetime.now(UTC))
        except ERRORS as exc:
            LOG.debug("the database was not surveyed: %s", exc)
            self._seen = Snapshot(self._seen.survey, self._seen.at_s, has_failed=True)
        else:
            self._seen = Snapshot(survey, self._clock(), has_failed=False)

    def _run(self) -> None:
        self.look()
        while not self._stop.wait(self._every_s):
            self.look()
