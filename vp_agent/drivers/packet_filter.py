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


LOAD_WORD_AT, LOAD_HALF_AT, LOAD_BYTE_AT = 0x40, 0x48, 0x50
"""From X on."""
AND, SHIFT_RIGHT, ADD_X, A_TO_X = 0x54, 0x74, 0x0C, 0x07
_LENGTH_OF_IPV4, _SET_X = 0xB1, 0x01
_IF_ANY_BIT, _GO = 0x45, 0x05
ETHERNET = 14
IPV4, IPV6, IPV6_BYTES = 0x0800, 0x86DD, 40
TCP, UDP = 6, 17
DROP = 255
"""As a distance: the packet does not pass."""


def to_port(protocol: int, port: int) -> list[Instruction]:
    """Of what the host sends into a device over IPv4 or IPv6. X is then the length of the IP
    header."""
    ipv4 = [
        Instruction(LOAD_BYTE, ETHERNET + 9),
        Instruction(IF_EQUAL, protocol, 0, DROP),
        Instruction(LOAD_HALF, ETHERNET + 6),
        Instruction(_IF_ANY_BIT, 0x1FFF, DROP, 0),  # A later fragment does not name the port.
        Instruction(_LENGTH_OF_IPV4, ETHERNET),
    ]
    ipv6 = [
        Instruction(IF_EQUAL, IPV6, 0, DROP),
        Instruction(LOAD_BYTE, ETHERNET + 6),
        Instruction(IF_EQUAL, protocol, 0, DROP),
        Instruction(_SET_X, IPV6_BYTES),
    ]
    return [
        Instruction(LOAD_HALF, PACKET_TYPE),
        Instruction(IF_EQUAL, OUTGOING, 0, DROP),
        Instruction(LOAD_HALF, ETHERNET - 2),
        Instruction(IF_EQUAL, IPV4, 0, len(ipv4) + 1),
        *ipv4,
        Instruction(_GO, len(ipv6)),
        *ipv6,
        Instruction(LOAD_HALF_AT, ETHERNET + 2),
        Instruction(IF_EQUAL, port, 0, DROP),
    ]


def whole(checks: Sequence[Instruction], kept_bytes: int) -> tuple[Instruction, ...]:
    """What passes all checks is kept, up to so many bytes. A check that reads beyond the end of the
    packet does not pass it."""
    program = [*checks, Instruction(RETURN, kept_bytes), Instruction(RETURN, 0)]
    return tuple(_resolved(one, len(program) - 2 - at) for at, one in enumerate(program))


def _resolved(one: Instruction, to_end: int) -> Instruction:
    return one._replace(
        if_true=to_end if one.if_true == DROP else one.if_true,
        if_false=to_end if one.if_false == DROP else one.if_false,
    )
