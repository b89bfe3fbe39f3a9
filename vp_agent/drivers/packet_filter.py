# SPDX-License-Identifier: Apache-2.0
"""Packet sockets with a filter in the kernel, in classic BPF: what does not pass costs no copy."""

import ctypes
import socket
import struct
from collections.abc import Sequence
from typing import NamedTuple

_SO_ATTACH_FILTER = 26
_ETH_P_ALL = 3


class Instruction(NamedTuple):
    """`struct sock_filter`; see Documentation/networking/filter.rst of the kernel."""

    code: int
    value: int
    if_true: int = 0
    """So many instructions are left out."""
    if_false: int = 0


LOAD_HALF, LOAD_BYTE = 0x28, 0x30
IF_EQUAL, RETURN = 0x15, 0x06
PACKET_TYPE = 0xFFFFF000 + 4
"""Where a filter finds it (SKF_AD_PKTTYPE)."""
OUTGOING = 4
"""Of what the host sends into a device; if that is a tap, to the guest."""


def open_packets(device: str, program: Sequence[Instruction], buffer_bytes: int) -> socket.socket:
    """It never waits. The kernel doubles `buffer_bytes`, and drops what does not fit. Raises
    OSError: there is no such device, or CAP_NET_RAW is missing."""
    # Of no protocol yet, so that it gets nothing before its filter is there.
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
    try:
        _attach(packets, program)
        packets.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        packets.bind((device, _ETH_P_ALL))
    except OSError:
        packets.close()
        raise
    return packets


def _attach(packets: socket.socket, program: Sequence[Instruction]) -> None:
    code = b"".join(
        struct.pack("=HBBI", one.code, one.if_true, one.if_false, one.value) for one in program
    )
    buffer = ctypes.create_string_buffer(code)
    option = struct.pack("@HP", len(program), ctypes.addressof(buffer))
    packets.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, option)
