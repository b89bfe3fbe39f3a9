# SPDX-License-Identifier: Apache-2.0
"""What servers of a flavor and an image were measured to be like, as the vp-schedulers tell it.

Each message replaces the one before as a whole, so that readers take no lock. What was learned does
not grow old: it holds until another message comes.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from nova_vp import wire
from nova_vp.message_filter import RejectedMessage


class _Lesson(NamedTuple):
    sent: float
    heard_s: float
    classes: Mapping[tuple[str, str | None], int]
    """By flavor and image; None: whatever the image."""


class ProfileCache:
    def __init__(self, stale_after_s: float, clock: Callable[[], float]) -> None:
        self._stale_after_s = stale_after_s
        self._clock = clock
        self._lesson: _Lesson | None = None

    def accept(self, text: object) -> None:
        """Take in a message. Raises wire.BadMessage or Unwelcome; nothing is then changed."""
        message = wire.decode(wire.PROFILES, text)
        now_s, current = self._clock(), self._lesson
        is_heard = current is not None and now_s - current.heard_s <= self._stale_after_s
        # Senders' clocks differ: whose is behind is heard when the others have fallen silent.
        if current is not None and is_heard and message["sent"] < current.sent:
            raise RejectedMessage("profiles: older than those that are known")
        classes = {(flavor, image): number for flavor, image, number in message["learned"]}
        self._lesson = _Lesson(message["sent"], now_s, classes)

    def of_image(self, flavor: str, image: str) -> int | None:
        """The newcomer class; None: too few projects have such servers."""
        return self._lesson.classes.get((flavor, image)) if self._lesson else None

    def of_flavor(self, flavor: str) -> int | None:
        """Whatever its image."""
        return self._lesson.classes.get((flavor, None)) if self._lesson else None
