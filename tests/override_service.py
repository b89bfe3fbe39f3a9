# SPDX-License-Identifier: Apache-2.0
"""vp-api as an agent meets it: versions of its overrides, and what it does when they are ignored.

Versions are given as `nova_vp.db.overrides` gives them, without a database.
"""

from collections.abc import Callable
from datetime import UTC, datetime

from nova_vp.db.gate import is_possible
from nova_vp.server_override import ServerOverride, overrides_text


class OverrideService:
    def __init__(self, clock: Callable[[], float], version: int = 0) -> None:
        """`clock`: seconds since 1970; `version`: of the last order."""
        self._clock = clock
        self.version = version

    def order(
        self, take: Callable[[str], int | None], uuid: str, ordered: ServerOverride
    ) -> int | None:
        """`take`: what the agent answers to a message. None: it has remembered the order; else the
        version for which it ignores it."""
        self.version = max(self.version + 1, round(self._clock() * 1000))
        newer = take(overrides_text(self.version, {uuid: ordered}))
        if newer is None:
            return None
        if is_possible(newer, datetime.fromtimestamp(self._clock(), UTC)):
            self.version = max(self.version, newer + 1)
        return take(overrides_text(self.version, {uuid: ordered}))
