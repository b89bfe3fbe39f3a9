# SPDX-License-Identifier: Apache-2.0
"""What this process has stored already, so that it writes news only.

Most reports repeat what the one before said of actions and VPs. Eight bytes are kept of each such
fact; another process may have stored something else since, so facts carry the hour or the day in
which they shall be told again.
"""

from array import array
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Mapping
from typing import TypeVar

MAX_HOSTS = 20_000
Told = TypeVar("Told")


class DedupCache:
    def __init__(self, max_hosts: int = MAX_HOSTS) -> None:
        """Of hosts beyond these, those heard least recently are forgotten, and told again."""
        self._max_hosts = max_hosts
        self._facts: OrderedDict[str, array[int]] = OrderedDict()

    def news(self, host: str, facts: Mapping[Hashable, Told]) -> list[Told]:
        """What belongs to those facts that were not remembered for the host."""
        known = set(self._facts.get(host, ()))
        return [told for fact, told in facts.items() if hash(fact) not in known]

    def remember(self, host: str, facts: Iterable[Hashable]) -> None:
        """These are now all that is known of the host."""
        self._facts[host] = array("q", map(hash, facts))
        self._facts.move_to_end(host)
        if len(self._facts) > self._max_hosts:
            self._facts.popitem(last=False)
