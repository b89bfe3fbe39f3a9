# SPDX-License-Identifier: Apache-2.0
"""What servers of a flavor and image are like, learned from those measured, told to schedulers.

Each project has one vote, so that none can decide what servers of others are taken for.

Any number of vp-schedulers teach: each reads the same database, and the latest message holds. One
is sent when the lesson has changed, looked at every minute, and when a scheduler process asks.
"""

import logging
import time
from collections import defaultdict
from collections.abc import Iterable
from functools import cached_property
from typing import Protocol

import oslo_messaging

from nova_vp import rpcapi, rpctransport, wire
from nova_vp.db.records import ClassCount
from nova_vp.db.report_store import ERRORS
from nova_vp.newcomer_class import median_class
from nova_vp.signing.identity import Identity
from vp_scheduler.ingest.coalesce import Coalescer

LOG = logging.getLogger(__name__)
EVERY_S = 60.0
FAULTS = (*ERRORS, oslo_messaging.MessagingException, wire.BadMessage)
Lesson = list[tuple[str, str | None, int]]


class Counting(Protocol):
    def count_classes(self) -> list[ClassCount]: ...


def learn(counts: Iterable[ClassCount], least_projects: int) -> Lesson:
    """The median class over the projects, where enough of them vote: of each flavor and image, and
    of each flavor (image None). Those that most projects vote on."""
    votes: dict[tuple[str, str | None], dict[int, int]] = defaultdict(dict)
    for one in counts:
        votes[one.flavor, one.image][one.vp_class] = one.projects
    voters = {kind: sum(of_class.values()) for kind, of_class in votes.items()}
    known = [kind for kind in voters if voters[kind] >= least_projects]
    usual = sorted(known, key=lambda kind: (-voters[kind], _ordered(kind)))[: wire.MAX_LEARNED]
    return [(*kind, median_class(votes[kind])) for kind in sorted(usual, key=_ordered)]


def _ordered(kind: tuple[str, str | None]) -> tuple[str, bool, str]:
    flavor, image = kind
    return flavor, image is not None, image or ""


class ProfilePublisher:
    def __init__(self, identity: Identity, store: Counting) -> None:
        self._identity = identity
        self._store = store
        self._least_projects = identity.conf.vp_scheduler.learn_from_projects
        self._is_failing = False
        self._sent: Lesson = []
        self._on_demand = Coalescer("teach", self._try_to_teach, EVERY_S)

    def start(self) -> None:
        self._on_demand.start()

    def close(self, timeout_s: float) -> None:
        self._on_demand.close(timeout_s)

    def ask(self) -> None:
        """Somebody knows nothing yet."""
        self._on_demand.ask()

    def _try_to_teach(self, is_asked: bool) -> None:
        try:
            self._teach(is_asked)
        except FAULTS as exc:
            self._note_failure(exc)
        else:
            self._is_failing = False

    def _teach(self, is_asked: bool) -> None:
        lesson = learn(self._store.count_classes(), self._least_projects)
        if is_asked or lesson != self._sent:
            message = {"v": wire.VERSION, "sent": time.time(), "learned": lesson}
            self._schedulers.profiles(wire.encode(wire.PROFILES, message))
            self._sent = lesson

    @cached_property
    def _schedulers(self) -> rpcapi.DigestAPI:
        return rpcapi.DigestAPI(rpctransport.Bus(self._identity))

    def _note_failure(self, exc: Exception) -> None:
        if not self._is_failing:
            LOG.warning("learned profiles were not sent, trying again: %s", exc)
        self._is_failing = True
