# SPDX-License-Identifier: Apache-2.0
"""Counts of single network devices, by netlink (RTM_GETSTATS): the kernel sums up those of the
device that is asked for alone, where /proc/net/dev and the like sum up all of the host.
"""

import os
import socket
import struct
from typing import NamedTuple

TIMEOUT_S = 1.0
_HEADER = struct.Struct("=IHHII")
_FAMILY = struct.Struct("=BBHII")
_ATTRIBUTE = struct.Struct("=HH")
_ERROR = struct.Struct("=i")
_COUNTS = struct.Struct("=8Q")
"""The first of `struct rtnl_link_stats64`; sent is every second one."""
_REQUEST, _GET_STATS, _IS_ERROR = 1, 94, 2
_LINK_64 = 1
_ANSWER_BYTES = 4096


class LinkStats(NamedTuple):
    """Of packets that the host sends to a device, ever. Of a tap they are the guest's: counted as
    sent when QEMU, or vhost, takes them."""

    packets: int
    dropped: int


class LinkStatsReader:
    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, socket.NETLINK_ROUTE)
        self._socket.settimeout(TIMEOUT_S)
        self._number = 0

    def read(self, index: int) -> LinkStats:
        """Of the device with this index. Raises OSError, ENODEV if it is gone."""
        self._number += 1
        length = _HEADER.size + _FAMILY.size
        header = _HEADER.pack(length, _GET_STATS, _REQUEST, self._number, 0)
        self._socket.send(header + _FAMILY.pack(0, 0, 0, index, 1 << (_LINK_64 - 1)))
        while True:
            answer = self._socket.recv(_ANSWER_BYTES)
            _, kind, _, number, _ = _HEADER.unpack_from(answer)
            if number == self._number:  # Another one is late, of a question that timed out.
                return _counts(answer, kind)

    def close(self) -> None:
        self._socket.close()


def _counts(answer: bytes, kind: int) -> LinkStats:
    if kind == _IS_ERROR:
        number = -_ERROR.unpack_from(answer, _HEADER.size)[0]
        raise OSError(number, os.strerror(number))
    counts = _COUNTS.unpack_from(answer, _HEADER.size + _FAMILY.size + _ATTRIBUTE.size)
    _, packets, _, _, _, _, _, dropped = counts
    return LinkStats(packets, dropped)
