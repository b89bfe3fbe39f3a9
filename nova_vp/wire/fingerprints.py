# SPDX-License-Identifier: Apache-2.0
"""The servers that a digest has counted, in few bits each: what each counts as, and where it is."""

import base64
import zlib
from collections.abc import Iterable, Mapping, Sequence

from nova_vp.wire.errors import BadMessage
from nova_vp.wire.schema_types import UNKNOWN_CLASS

MARK_BYTES = 2
NOWHERE, SEVERAL = 126, 127
"""Seats of servers that do not run, and of those that live in several LLC domains or in one that
has no number here. Other seats are ids of domains."""
STRICT_SEAT = 128
"""Added to the seat of a server with `vp:isolation=strict`."""


def pack_known(uuids: Iterable[str]) -> str:
    """Which servers a digest has counted: 16 bits each, so that 100 VMs fit into 268 characters.

    A newcomer is mistaken for a known server once in 65536 / (servers of the host).
    """
    return _text(marks_of(uuids))


def unpack_known(known: str) -> bytes:
    """The marks, as `marks_of` has them. Raises BadMessage."""
    marks = _bytes("known", known)
    if len(marks) % MARK_BYTES:
        raise BadMessage("known: half a mark")
    return marks


def pack_classes(class_of: Mapping[str, int]) -> str:
    """The newcomer class of each server of `pack_known(class_of)`, in its order, 4 bits each."""
    by_mark: dict[bytes, int] = {}
    for uuid, newcomer_class in class_of.items():
        mark = mark_of(uuid)
        # Of two servers that look alike here, nobody could say which is which.
        is_lone = by_mark.setdefault(mark, newcomer_class) == newcomer_class
        by_mark[mark] = newcomer_class if is_lone else UNKNOWN_CLASS
    classes = [by_mark[mark] for mark in sorted(by_mark)]
    if len(classes) % 2:
        classes.append(UNKNOWN_CLASS)
    return _text(bytes(a << 4 | b for a, b in zip(classes[::2], classes[1::2], strict=True)))


def unpack_classes(text: str, marks: bytes) -> bytes:
    """One byte for each of the marks; what this release has no class for is unknown.

    Raises BadMessage.
    """
    packed = _bytes("classes", text)
    count = len(marks) // MARK_BYTES
    if len(packed) != (count + 1) // 2:
        raise BadMessage(f"classes: {len(packed)} bytes for {count} known servers")
    both = (half for byte in packed for half in (byte >> 4, byte & 0xF))
    return bytes(min(half, UNKNOWN_CLASS) for half in both)[:count]


def seat_of(domain_ids: Sequence[int], is_strict: bool) -> int:
    if not domain_ids:
        return NOWHERE
    is_numbered = len(domain_ids) == 1 and domain_ids[0] < NOWHERE
    return (domain_ids[0] if is_numbered else SEVERAL) | STRICT_SEAT * is_strict


def pack_seats(seats: Mapping[str, int]) -> str:
    """The seat of each server of `pack_known(seats)`, in its order, a byte each."""
    by_mark: dict[bytes, int] = {}
    for uuid, seat in seats.items():
        mark = mark_of(uuid)
        # Of two servers that look alike here, either may be meant.
        is_lone = by_mark.setdefault(mark, seat) == seat
        by_mark[mark] = seat if is_lone else SEVERAL | STRICT_SEAT
    return _text(bytes(by_mark[mark] for mark in sorted(by_mark)))


def unpack_seats(text: str, marks: bytes) -> bytes:
    """One byte for each of the marks. Raises BadMessage."""
    seats, count = _bytes("seats", text), len(marks) // MARK_BYTES
    if len(seats) != count:
        raise BadMessage(f"seats: {len(seats)} bytes for {count} known servers")
    return seats


def marks_of(uuids: Iterable[str]) -> bytes:
    """Sorted and each once, so that the same servers make the same bytes."""
    return b"".join(sorted({mark_of(uuid) for uuid in uuids}))


def split_marks(marks: bytes) -> list[bytes]:
    return [marks[i : i + MARK_BYTES] for i in range(0, len(marks), MARK_BYTES)]


def mark_of(uuid: str) -> bytes:
    return (zlib.crc32(uuid.lower().encode()) & 0xFFFF).to_bytes(MARK_BYTES, "big")


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()


def _bytes(field: str, text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as exc:
        raise BadMessage(f"{field}: {exc}") from exc
