# SPDX-License-Identifier: Apache-2.0
"""Connections with an end: looking up the name, and connecting, both within one deadline."""

import queue
import socket
import threading
import time
from collections.abc import Sequence
from typing import Any

from vp_agent.latency.base import MOST_PIECES, SourceError

_Address = tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]


class Pieces:
    """In which one answer comes."""

    def __init__(self) -> None:
        self._count = 0

    def count(self) -> None:
        """Another one. Raises SourceError if it is one too many."""
        self._count += 1
        if self._count > MOST_PIECES:
            raise SourceError(f"the answer comes in more than {MOST_PIECES} pieces")


def left_s(until_s: float) -> float:
    """Raises TimeoutError if nothing is."""
    left = until_s - time.monotonic()
    if left <= 0:
        raise TimeoutError("its time is over")
    return left


def connected(host: str, port: int, until_s: float) -> socket.socket:
    """To the first of its addresses that answers; each gets an equal part of the time that is left.
    Raises OSError, TimeoutError among them, and SourceError if nobody says what the addresses are.
    """
    addresses = _addresses(host, port, until_s)
    for number, (family, kind, protocol, _, address) in enumerate(addresses, 1):
        link = socket.socket(family, kind, protocol)
        try:
            link.settimeout(left_s(until_s) / (len(addresses) - number + 1))
            link.connect(address)
        except OSError:
            link.close()
            if number == len(addresses):
                raise
        else:
            return link
    raise SourceError(f"{host} has no address")


def _addresses(host: str, port: int, until_s: float) -> Sequence[_Address]:
    """The C library cannot be told how long to wait, so a thread does."""
    try:
        return _look_up(host, port, socket.AI_NUMERICHOST)
    except socket.gaierror:
        pass
    answers: queue.SimpleQueue[Sequence[_Address] | OSError] = queue.SimpleQueue()

    def look() -> None:
        try:
            answers.put(_look_up(host, port))
        except OSError as exc:
            answers.put(exc)

    threading.Thread(target=look, name="latency-name", daemon=True).start()
    try:
        answer = answers.get(timeout=left_s(until_s))
    except queue.Empty:
        raise SourceError(f"{host}: its address is not looked up in time") from None
    if isinstance(answer, OSError):
        raise answer
    return answer


def _look_up(host: str, port: int, flags: int = 0) -> Sequence[_Address]:
    return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
