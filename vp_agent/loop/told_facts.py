# SPDX-License-Identifier: Apache-2.0
"""What vp-scheduler told this host of Nova's facts: kept in memory and in the state folder.

They arrive on other threads and replace the former ones whole; the tick asks for them. Nothing here
touches a guest.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from nova_vp import wire
from nova_vp.host_facts import NO_FACTS, HostFacts, facts_text, read_facts
from vp_agent.loop.state import StateFolder

LOG = logging.getLogger(__name__)
STALE_AFTER_S = 24 * 3600.0
"""A file this old is of no use; vp-scheduler repeats facts that stay the same every hour."""
NO_SPECS: Mapping[str, str] = {}


class Told(NamedTuple):
    read_at: float = 0.0
    """When Nova was asked, in seconds since 1970; 0: nobody told anything."""
    facts: HostFacts = NO_FACTS
    checksum: str = ""


NOTHING_TOLD = Told()


class ToldFacts:
    def __init__(self, state: StateFolder, clock: Callable[[], float] = time.time) -> None:
        """`clock`: seconds since 1970."""
        self._state = state
        self._clock = clock
        self._lock = threading.Lock()
        self.told = self._kept()

    def take(self, text: object) -> None:
        """Facts that are older than those in use are ignored. Raises wire.BadMessage, and OSError
        where the state folder refuses: nothing has changed then."""
        read_at, facts = read_facts(text)
        if self._is_ahead(read_at):
            raise wire.BadMessage(
                f"{wire.FACTS}: read_at is {read_at - self._clock():.0f} s ahead of this host's "
                "clock: check the clocks of this host and of vp-scheduler"
            )
        with self._lock:
            if read_at < self.told.read_at:
                LOG.info("facts of Nova are ignored: newer ones are in use")
                return
            self._state.set_facts(facts_text(read_at, facts))
            self.told = Told(read_at, facts, facts.checksum)

    def specs_of(self, uuid: str) -> Mapping[str, str]:
        """`vp:` extra specs of the server's flavor, as far as this host was told."""
        return self.told.facts.specs.get(uuid, NO_SPECS)

    def as_status(self) -> dict[str, Any]:
        """For people."""
        told = self.told
        return {"read_at": told.read_at, "checksum": told.checksum, **told.facts.as_message()}

    def _is_ahead(self, read_at: float) -> bool:
        """Else no later facts would be taken."""
        return read_at > self._clock() + wire.EXPIRE_S

    def _kept(self) -> Told:
        text = self._state.facts()
        if text is None:
            return NOTHING_TOLD
        try:
            read_at, facts = read_facts(text)
        except wire.BadMessage as exc:
            LOG.error("facts.json is not readable (%s): starting without facts of Nova", exc)
            return NOTHING_TOLD
        if self._is_ahead(read_at) or self._clock() - read_at > STALE_AFTER_S:
            LOG.warning(
                "facts.json is ignored: by this host's clock it is from the future or older than"
                " %.0f hours; vp-scheduler tells the facts again",
                STALE_AFTER_S / 3600,
            )
            return NOTHING_TOLD
        return Told(read_at, facts, facts.checksum)
