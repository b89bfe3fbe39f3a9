# SPDX-License-Identifier: Apache-2.0
"""The first line of each HTTP request that reaches a server, as its tap sees it.

The kernel's filter passes the first segment of a request alone, cut short. What is not read in time
is dropped: a flood of requests costs no more than one buffer in each look.
"""

import contextlib
from collections.abc import Iterator

from vp_agent.drivers.packet_filter import (
    A_TO_X,
    ADD_X,
    AND,
    DROP,
    ETHERNET,
    IF_EQUAL,
    IPV4,
    IPV6_BYTES,
    LOAD_BYTE_AT,
    LOAD_WORD_AT,
    SHIFT_RIGHT,
    TCP,
    Instruction,
    open_packets,
    to_port,
    whole,
)

METHODS = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"PATC", b"OPTI")
LINE_BYTES = 200
_MOST_HEADERS = ETHERNET + 60 + 60
_BUFFER_BYTES = 256 << 10
_MOST_READ = 1000
"""In one look; the buffer holds fewer."""


def requests_to(port: int) -> tuple[Instruction, ...]:
    checks = [
        *to_port(TCP, port),
        Instruction(LOAD_BYTE_AT, ETHERNET + 12),  # The length of the TCP header.
        Instruction(AND, 0xF0),
        Instruction(SHIFT_RIGHT, 2),
        Instruction(ADD_X, 0),
        Instruction(A_TO_X, 0),
        Instruction(LOAD_WORD_AT, ETHERNET),
        *_any_of(METHODS),
    ]
    return whole(checks, _MOST_HEADERS + LINE_BYTES)


def _any_of(words: tuple[bytes, ...]) -> Iterator[Instruction]:
    for left, word in zip(range(len(words) - 1, -1, -1), words, strict=True):
        yield Instruction(IF_EQUAL, int.from_bytes(word), left, 0 if left else DROP)


class RequestCapture:
    def __init__(self, device: str, port: int) -> None:
        """Raises OSError: there is no such device, or CAP_NET_RAW is missing."""
        self._socket = open_packets(device, requests_to(port), _BUFFER_BYTES)

    def lines(self) -> Iterator[str]:
        """Of requests since this was asked last: method, path and what follows, cut short. Raises
        OSError if the device went away."""
        with contextlib.suppress(BlockingIOError):
            for _ in range(_MOST_READ):
                packet = self._socket.recv(_MOST_HEADERS + LINE_BYTES)
                yield _data_of(packet)[:LINE_BYTES].partition(b"\r\n")[0].decode("latin-1")

    def close(self) -> None:
        self._socket.close()


def _data_of(packet: bytes) -> bytes:
    """The filter has seen that the headers are there."""
    is_ipv4 = int.from_bytes(packet[ETHERNET - 2 : ETHERNET]) == IPV4
    tcp = ETHERNET + ((packet[ETHERNET] & 0xF) * 4 if is_ipv4 else IPV6_BYTES)
    return packet[tcp + (packet[tcp + 12] >> 4) * 4 :]
