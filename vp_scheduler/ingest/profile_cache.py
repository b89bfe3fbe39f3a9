# SPDX-License-Identifier: Apache-2.0
"""What servers of a flavor and an image were measured to be like, as the vp-schedulers tell it.

Each message replaces the one before as a whole, so that readers take no lock. What was learned does
not grow old: it holds until another message comes.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from nova_vp import wire
from nova_vp.newcomer_class import most_common
from vp_scheduler.ingest.message_filter import RejectedMessage


class _Lesson(NamedTuple):
    sent: float
    heard_s: float
    of_image: Mapping[tuple[str, str], int]
    of_flavor: Mapping[str, int]


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
        of_image = {(flavor, image): number for flavor, image, number in message["learned"]}
        self._lesson = _Lesson(message["sent"], now_s, of_image, _by_flavor(message["learned"]))

    def of_image(self, flavor: str, image: str) -> int | None:
        """The newcomer class; None: nobody has measured such a server."""
        return self._lesson.of_image.get((flavor, image)) if self._lesson else None

    def of_flavor(self, flavor: str) -> int | None:
        """Whatever its image."""
        return self._lesson.of_flavor.get(flavor) if self._lesson else None


def _by_flavor(learned: Iterable[tuple[str, str, int]]) -> Mapping[str, int]:
    seen: dict[str, Counter[int]] = {}
    for flavor, _, number in learned:
        seen.setdefault(flavor, Counter())[number] += 1
    return {flavor: most_common(counts) for flavor, counts in seen.items()}
