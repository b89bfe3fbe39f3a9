# SPDX-License-Identifier: Apache-2.0
"""A call as it crosses the bus: one text that says everything, compressed, and a signature.

The text names sender, recipient, method, arguments, moment and an id, so that nothing of a call
can be used for another one, at another receiver, or a second time. What is signed are the
compressed bytes. Without compression a report takes ten times as much of the bus: it is JSON
within JSON three times over, in which a quote becomes eight characters.
"""

import base64
import binascii
import json
import math
import threading
import time
import uuid
import zlib
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from nova_vp import wire
from nova_vp.signing.senders import MAY_CALL, ORDERED, Sender, sender_of

OLDEST_S = float(wire.EXPIRE_S)
AHEAD_S = 30.0
"""So far a sender's clock may be ahead of ours."""
BEFORE_START_S = 5.0
MOST_BYTES = 6 << 20
"""More than the largest body needs as JSON within JSON, compressed or not."""
COMPRESSION = 1
"""Of zlib. Higher levels take longer and make a report hardly smaller."""
MOST_IDS = 10_000
"""Of one sender, within the time in which a call is recent."""
MOST_NAME = 300
_SIGNATURE_BYTES = 64


class Refused(Exception):
    """The call changes nothing here. The text says why."""


class Call(NamedTuple):
    """What was signed."""

    sender: Sender
    to: str
    method: str
    arguments: Mapping[str, Any]
    id: str
    request_id: str
    """Of the API request that caused it; empty: none did."""
    answer_to: str
    """Where its sender waits for the answer; empty: nowhere."""


class Sealed(NamedTuple):
    """A call as it is sent."""

    sender: str
    """Whose key to look for; what counts is the sender in the text."""
    packed: str
    """Base64 of the compressed text."""
    signature: str
    """Base64, over the compressed text."""


class Keys(Protocol):
    def of(self, sender: Sender) -> Collection[Ed25519PublicKey]:
        """Those in use; none of a sender that is unknown. Cheap, thread-safe."""


class Signer:
    """Signs what one sender says. Thread-safe."""

    def __init__(
        self, sender: Sender, key: Ed25519PrivateKey, clock: Callable[[], float] = time.time
    ) -> None:
        self.sender = sender
        self._key = key
        self._clock = clock

    def seal(
        self,
        to: str,
        method: str,
        arguments: Mapping[str, Any],
        *,
        id: str = "",
        request_id: str = "",
        answer_to: str = "",
    ) -> Sealed:
        """`to` is a topic, or topic.server for one only.

        Raises wire.BadMessage for arguments that JSON does not have.
        """
        call = {
            "from": str(self.sender),
            "to": to,
            "method": method,
            "arguments": arguments,
            "at": round(self._clock(), 3),
            "id": id or uuid.uuid4().hex,
            "request_id": request_id,
            "answer_to": answer_to,
        }
        try:
            text = wire.compact(call)
        except (TypeError, ValueError, RecursionError) as exc:
            raise wire.BadMessage(f"{method}: {exc}") from exc
        signed = zlib.compress(text.encode("ascii"), COMPRESSION)
        return Sealed(str(self.sender), _base64(signed), _base64(self._key.sign(signed)))


class Verifier:
    """What one listener believes. Thread-safe."""

    def __init__(
        self,
        keys: Keys,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`monotonic`: by which ids are forgotten, so that a clock that jumps lets nothing come
        twice."""
        self._keys = keys
        self._clock = clock
        self._monotonic = monotonic
        self._since = clock() - BEFORE_START_S
        self._lock = threading.Lock()
        self._ids: dict[Sender, OrderedDict[str, float]] = defaultdict(OrderedDict)

    def open(
        self, sender: object, packed: object, signature: object, recipients: Collection[str]
    ) -> Call:
        """The call, if it is what it says. `recipients`: the names of this listener.

        Nothing is unpacked before the signature is checked: who only can write to a queue must not
        buy more time of ours than that. Raises Refused.
        """
        claimed = _sender(sender)
        signed = _bytes(packed)
        self._check_signed(claimed, signed, signature)
        call, at = _read(_unpacked(signed))
        if call.sender != claimed:
            raise Refused(f"{claimed}: it has signed a call of {call.sender}")
        if call.to not in recipients:
            raise Refused(f"{call.sender}: {call.method} is for {call.to}")
        if call.sender.process not in MAY_CALL.get(call.method, ()):
            raise Refused(f"{call.sender}: a {call.sender.process} may not call {call.method}")
        if call.answer_to and not call.sender.waits_at(call.answer_to):
            raise Refused(f"{call.sender}: it does not wait for answers at {call.answer_to}")
        self._check_recent(call, at)
        if call.method not in ORDERED:
            self._check_once(call)
        return call

    def _check_signed(self, sender: Sender, signed: bytes, signature: object) -> None:
        given = _signature(signature)
        keys = self._keys.of(sender)
        if not keys:
            raise Refused(f"no key of {sender} is in use: see `vp-manage credentials list`")
        for key in keys:
            try:
                key.verify(given, signed)
            except InvalidSignature:
                continue
            return
        raise Refused(f"{sender}: the signature fits none of its keys that are in use")

    def _check_recent(self, call: Call, at: float) -> None:
        now = self._clock()
        if not now - OLDEST_S <= at <= now + AHEAD_S:
            raise Refused(
                f"{call.sender}: {call.method} was sent {now - at:.0f} s ago, says its clock: "
                f"more than {OLDEST_S:.0f} s ago or {AHEAD_S:.0f} s ahead; is that clock right?"
            )
        if at < self._since and call.method not in ORDERED:
            raise Refused(f"{call.sender}: {call.method} was sent before this process started")

    def _check_once(self, call: Call) -> None:
        with self._lock:
            ids = self._ids[call.sender]
            now_s = self._monotonic()
            while ids and next(iter(ids.values())) < now_s - OLDEST_S - AHEAD_S:
                ids.popitem(last=False)
            if call.id in ids:
                raise Refused(f"{call.sender}: {call.method} has come before")
            if len(ids) >= MOST_IDS:
                raise Refused(f"{call.sender}: more than {MOST_IDS} calls in {OLDEST_S:.0f} s")
            ids[call.id] = now_s


def _sender(name: object) -> Sender:
    """Raises Refused."""
    try:
        return sender_of(str(name)[:MOST_NAME])
    except ValueError as exc:
        raise Refused(f"not a call: {exc}") from exc


def _base64(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def _bytes(packed: object) -> bytes:
    """Raises Refused."""
    if not isinstance(packed, str) or len(packed) > MOST_BYTES:
        raise Refused(f"not a text of at most {MOST_BYTES} bytes")
    try:
        return base64.b64decode(packed, validate=True)
    except (ValueError, binascii.Error) as exc:
        raise Refused("the call is not Base64") from exc


def _unpacked(signed: bytes) -> str:
    """Raises Refused, also where a few bytes would become very many."""
    unpacker = zlib.decompressobj()
    try:
        text = unpacker.decompress(signed, MOST_BYTES)
        if not unpacker.eof or unpacker.unused_data:
            raise Refused(f"not one compressed text of at most {MOST_BYTES} bytes")
        return text.decode("ascii")
    except (zlib.error, UnicodeDecodeError) as exc:
        raise Refused(f"not a compressed ASCII text: {str(exc)[:200]}") from exc


def _read(text: str) -> tuple[Call, float]:
    """Of what its sender has signed. Raises Refused."""
    try:
        said = json.loads(text)
        at = float(said["at"])
        arguments = said["arguments"]
        words = [said[key] for key in ("to", "method", "id", "request_id", "answer_to")]
        sender = sender_of(said["from"])
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError, AttributeError) as exc:
        raise Refused(f"not a call: {type(exc).__name__} {str(exc)[:200]}") from exc
    if not all(isinstance(word, str) and len(word) <= 600 for word in words):
        raise Refused("not a call: to, method, id, request_id or answer_to is no short text")
    if not isinstance(arguments, dict) or not math.isfinite(at) or not words[2]:
        raise Refused("not a call: arguments, at or id")
    to, method, id, request_id, answer_to = words
    return Call(sender, to, method, arguments, id, request_id, answer_to), at


def _signature(given: object) -> bytes:
    try:
        raw = base64.b64decode(str(given), validate=True)
    except (ValueError, binascii.Error) as exc:
        raise Refused("the signature is not Base64") from exc
    if len(raw) != _SIGNATURE_BYTES:
        raise Refused(f"the signature is not {_SIGNATURE_BYTES} bytes long")
    return raw
