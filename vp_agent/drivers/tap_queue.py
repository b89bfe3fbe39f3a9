# SPDX-License-Identifier: Apache-2.0
"""What waits for one guest in the ring of its tap: packets that were sent to it, less those that
QEMU or vhost took, and those that were dropped because the ring was full.

No kernel tells the fill of that ring, and a tap's qdisc holds nothing. The counts are exact; bytes
are those of as many packets of the mean length of the latest ones.
"""

import math
import socket
from typing import NamedTuple

from vp_agent.drivers.link_stats import LinkStatsReader
from vp_agent.drivers.packet_counter import TO_THE_GUEST, PacketCounter

NEVER_EMPTY_S = 60.0
"""A queue that is not shorter for so long counts as empty: packets that a stopped QEMU left, which
the kernel frees and does not count, would else wait for ever."""


MOST_IDLE_S = 1.0
"""After which a device that is gone is noticed."""


class Waiting(NamedTuple):
    packets: int
    kib: float
    lost: int
    """Packets that were dropped, ever."""


class TapQueue:
    def __init__(self, device: str, links: LinkStatsReader, now_s: float) -> None:
        """Raises OSError: there is no such device, or CAP_NET_RAW is missing."""
        self._links = links
        self._index = socket.if_nametoindex(device)
        self._counter = PacketCounter(device, TO_THE_GUEST)
        try:
            stats = links.read(self._index)
        except OSError:
            self._counter.close()
            raise
        behind: float = self._counter.total() - stats.packets - stats.dropped
        self._least = self._least_before = behind
        self._turned_at_s = now_s
        self._last, self._sent = Waiting(0, 0.0, stats.dropped), -1
        self._read_at_s = now_s

    def read(self, now_s: float) -> Waiting:
        """Raises OSError if the device is gone."""
        # Never more than truly wait: what is sent meanwhile does not count.
        sent = self._counter.total()
        if self._is_idle(sent, now_s):
            return self._last
        stats = self._links.read(self._index)
        gone = stats.packets + stats.dropped
        if now_s - self._turned_at_s >= NEVER_EMPTY_S:
            self._least_before, self._least, self._turned_at_s = self._least, math.inf, now_s
        if sent - gone < self._least:
            self._least = min(self._least, self._counter.total() - gone)
        waiting = int(max(0.0, sent - gone - min(self._least, self._least_before)))
        kib = waiting * self._counter.mean_bytes() / 1024
        self._sent, self._read_at_s = sent, now_s
        self._last = Waiting(waiting, kib, stats.dropped)
        return self._last

    def _is_idle(self, sent: int, now_s: float) -> bool:
        """Nothing waited, and nothing was sent since: all else costs ten times as much."""
        is_empty = sent == self._sent and not self._last.packets
        return is_empty and now_s - self._read_at_s < MOST_IDLE_S

    def close(self) -> None:
        self._counter.close()
