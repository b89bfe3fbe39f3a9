# SPDX-License-Identifier: Apache-2.0
"""How many packets pass a device: a packet socket that is full, so that the kernel counts each and
copies none.

What it holds, some packets without content, has the lengths of what passed last. The filter keeps
one byte, so that no memory of a packet stays in use.
"""

import collections
import contextlib
import socket
import struct
from collections.abc import Sequence

from vp_agent.drivers.packet_filter import (
    IF_EQUAL,
    LOAD_HALF,
    OUTGOING,
    PACKET_TYPE,
    RETURN,
    Instruction,
    open_packets,
)

_SOL_PACKET = 263
_PACKET_STATISTICS, _PACKET_AUXDATA = 6, 8
_STATISTICS = struct.Struct("=II")
_AUXDATA = struct.Struct("=IIIHHHH")
_BUFFER_BYTES = 16 << 10
"""For some dozen of full-sized packets."""
_MOST_HELD = 64
USUAL_BYTES = 1500
"""Of a packet, before any was seen."""
LENGTHS_KEPT = 16
TO_THE_GUEST = (
    Instruction(LOAD_HALF, PACKET_TYPE),
    Instruction(IF_EQUAL, OUTGOING, 0, 1),
    Instruction(RETURN, 1),
    Instruction(RETURN, 0),
)


class PacketCounter:
    def __init__(self, device: str, program: Sequence[Instruction]) -> None:
        """Raises OSError: there is no such device, or CAP_NET_RAW is missing."""
        self._socket = open_packets(device, program, _BUFFER_BYTES)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_AUXDATA, 1)
        self._total = 0
        self._lengths: collections.deque[int] = collections.deque(maxlen=LENGTHS_KEPT)

    def total(self) -> int:
        """Since it was opened."""
        # Asking sets both to 0; the first one has the second one in it.
        answer = self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, _STATISTICS.size)
        self._total += _STATISTICS.unpack(answer)[0]
        return self._total

    def mean_bytes(self) -> float:
        """Of the latest that were held. Raises OSError if the device went away."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(_MOST_HELD):
                _, told, _, _ = self._socket.recvmsg(1, socket.CMSG_SPACE(_AUXDATA.size))
                self._lengths.extend(_AUXDATA.unpack(data)[1] for _, _, data in told)
        return sum(self._lengths) / len(self._lengths) if self._lengths else USUAL_BYTES

    def close(self) -> None:
        self._socket.close()
