# SPDX-License-Identifier: Apache-2.0
"""Bit rate and frame rate of an RTP stream that a server receives, counted on its tap.

The last packet of each video frame has the marker bit (RFC 3550, 5.1, and RFC 6184). The kernel
counts; no packet is copied.
"""

from typing import NamedTuple

from vp_agent.drivers.packet_counter import PacketCounter
from vp_agent.drivers.packet_filter import (
    AND,
    DROP,
    ETHERNET,
    IF_EQUAL,
    LOAD_BYTE_AT,
    UDP,
    Instruction,
    to_port,
    whole,
)

_RTP = ETHERNET + 8
"""After the headers of Ethernet and UDP, from the length of the IP header on."""
_VERSION, _MARKER = 0x80, 0x80


class StreamRate(NamedTuple):
    kbit_s: float
    fps: float


def _rtp_to(port: int) -> list[Instruction]:
    return [
        *to_port(UDP, port),
        Instruction(LOAD_BYTE_AT, _RTP),
        Instruction(AND, 0xC0),
        Instruction(IF_EQUAL, _VERSION, 0, DROP),
    ]


def _frames_to(port: int) -> list[Instruction]:
    return [
        *_rtp_to(port),
        Instruction(LOAD_BYTE_AT, _RTP + 1),
        Instruction(AND, _MARKER),
        Instruction(IF_EQUAL, _MARKER, 0, DROP),
    ]


class StreamCounter:
    def __init__(self, device: str, port: int, now_s: float) -> None:
        """Raises OSError: there is no such device, or CAP_NET_RAW is missing."""
        self._packets = PacketCounter(device, whole(_rtp_to(port), 1))
        try:
            self._frames = PacketCounter(device, whole(_frames_to(port), 1))
        except OSError:
            self._packets.close()
            raise
        self._seen = (0, 0)
        self._at_s = now_s

    def read(self, now_s: float) -> StreamRate:
        """Since the last call. Raises OSError if the device went away."""
        span_s, self._at_s = now_s - self._at_s, now_s
        last, self._seen = self._seen, (self._packets.total(), self._frames.total())
        packets, frames = self._seen[0] - last[0], self._seen[1] - last[1]
        if span_s <= 0.0:
            return StreamRate(0.0, 0.0)
        kbit = packets * self._packets.mean_bytes() * 8 / 1000
        return StreamRate(kbit / span_s, frames / span_s)

    def close(self) -> None:
        self._packets.close()
        self._frames.close()
