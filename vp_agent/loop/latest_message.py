# SPDX-License-Identifier: Apache-2.0
"""The latest message of one kind that this host took, which a file of the state folder keeps.

Messages of vp-scheduler arrive in any order and from several hosts. Each has a version, which grows
with the time of the change. What the messages are about is for those that use this.
"""

import logging
from collections.abc import Callable
from typing import Generic, Protocol, Self, TypeVar

from nova_vp.server_override import REMEMBERED_AHEAD_MS

LOG = logging.getLogger(__name__)


class Versioned(Protocol):
    """A named tuple."""

    @property
    def version(self) -> int: ...

    def _replace(self, *, version: int) -> Self: ...


Content = TypeVar("Content", bound=Versioned)


class LatestMessage(Generic[Content]):
    """Not for several threads at once: callers hold a lock."""

    def __init__(
        self,
        subject: str,
        kept: Content,
        write: Callable[[Content], None],
        clock: Callable[[], float],
    ) -> None:
        """`subject`: in the plural, for the log. `kept`: by the file that `write` writes, which
        raises OSError. `clock`: seconds since 1970."""
        self._subject = subject
        self._write = write
        self._clock = clock
        self._is_ahead = False
        self.content = kept._replace(version=self._remembered(kept.version))
        self._note_ahead(kept.version)

    def take(self, version: int, make: Callable[[int], Content]) -> int | None:
        """None: what `make` returns for the version to remember holds. Else the message is ignored,
        and this is the newer version that holds. Raises OSError: nothing has changed then."""
        # Once: a number that moved with the clock would be newer than any that a service sends.
        in_use = self._remembered(self.content.version)
        self.content = self.content._replace(version=in_use)
        if version < in_use:
            LOG.info(
                "%s of version %d are ignored: version %d is in use", self._subject, version, in_use
            )
            return in_use
        self._note_ahead(version)
        content = make(self._remembered(version))
        if content != self.content:
            self._write(content)
            self.content = content
        return None

    def _remembered(self, version: int) -> int:
        """A message that is further ahead is obeyed, since the clock may be wrong, but no later one
        has to be newer than it: otherwise one message would lock out all to come."""
        now_ms = int(self._clock() * 1000)
        return version if version <= now_ms + REMEMBERED_AHEAD_MS else now_ms

    def _note_ahead(self, version: int) -> None:
        is_ahead = self._remembered(version) != version
        if is_ahead and not self._is_ahead:
            LOG.warning(
                "%s of version %d are applied, but the version is not remembered: it is further"
                " ahead of this host's clock than any that a service gives; check the clocks of"
                " this host and of vp-api, and who may write to the message bus",
                self._subject,
                version,
            )
        self._is_ahead = is_ahead
