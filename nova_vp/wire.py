# SPDX-License-Identifier: Apache-2.0
"""What crosses processes: small versioned messages, their schemas, and nothing that sends them.

Two per host, never per VM. The *digest* is what nova-scheduler places by; the *report* is what
operators and tenants are shown. Both carry (epoch, sequence): the newest pair wins, so that a
restarted agent is heard and a late message is not. Receivers validate shape and size before use.
"""

import base64
import json
import math
import re
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import jsonschema

DIGEST_TOPIC = "vp_digest"
REPORT_TOPIC = "vp_report"
AGENT_TOPIC = "vp_agent"
VERSION = 1
EXPIRE_S = 180
"""A message this old is no news: the broker drops it (`etc/nova-vp/rabbitmq-policies.json`)."""
DIGEST_BYTES = 1024
"""What a sender keeps a digest below, by leaving out LLC domains."""
MAX_DIGEST_BYTES = 4096
"""What a receiver takes: a host with very many servers needs more for `known`."""
MAX_REPORT_BYTES = 1024 * 1024
PREDICT_CLASSES = 10
"""States 0-8, then a newcomer nobody has measured."""
UNKNOWN_CLASS = 9

_TEXT = {"type": "string", "maxLength": 255}
_UUID = {"type": "string", "pattern": "^[0-9a-fA-F-]{32,36}$"}
_COUNT = {"type": "integer", "minimum": 0, "maximum": 2**53}
_NUMBER = {"type": "number", "minimum": 0, "maximum": 1e18}
_MODE = {"enum": ["observe", "advise", "enforce"]}
_PERMILLE = {
    "type": "array",
    "items": {"type": "integer", "minimum": 0, "maximum": 1000},
    "minItems": PREDICT_CLASSES,
    "maxItems": PREDICT_CLASSES,
}


def _object(
    required: Mapping[str, Any], optional: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def _nullable(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"anyOf": [schema, {"type": "null"}]}


def _list(schema: Mapping[str, Any], at_most: int) -> dict[str, Any]:
    return {"type": "array", "items": schema, "maxItems": at_most}


_HOST_NAME = r"\A[A-Za-z0-9_.:@-]{1,255}\Z"
_HEAD = {
    "v": {"const": VERSION},
    "host": {"type": "string", "pattern": _HOST_NAME},
    "epoch": _COUNT,
    "seq": _COUNT,
    "mode": _MODE,
}

DIGEST_SCHEMA = _object(
    {
        **_HEAD,
        "homing": {"type": "boolean"},
        "age_ms": _COUNT,
        "domains": _list(
            _object(
                {
                    "id": _COUNT,
                    "free_mcores": _COUNT,
                    "cpus": _COUNT,
                    "vcpus": _COUNT,
                    "newcomer": _PERMILLE,
                    "resident": _PERMILLE,
                    "strict": _PERMILLE,
                }
            ),
            64,
        ),
        "known": {"type": "string", "maxLength": MAX_DIGEST_BYTES},
    }
)
"""`known`: servers of this host that the numbers have counted, or that do not run (`pack_known`).
`age_ms`: how old the numbers were when they left. `homing`: newcomers get one LLC domain each.
`domains[].newcomer` / `.resident` / `.strict`: `predict` per newcomer class, in thousandths of
performance lost by the newcomer, by the worst resident and by the worst strict resident."""

_ALTERNATIVE = _object(
    {"uuid": _UUID, "domain": _COUNT, "why": _TEXT, "hurt_ratio": _nullable(_NUMBER)}
)

_ACTION = _object(
    {
        "id": _TEXT,
        "at": _NUMBER,
        "controller": _TEXT,
        "uuid": _UUID,
        "victim": _nullable(_UUID),
        "reason": _TEXT,
        "result": _TEXT,
        "detail": {"type": "string", "maxLength": 1024},
        "from_cpus": _TEXT,
        "to_cpus": _TEXT,
        "domains": _list(_COUNT, 64),
        "hurt_ratio": _NUMBER,
        "evidence": {
            "type": "object",
            "additionalProperties": {"type": "number", "minimum": -1e18, "maximum": 1e18},
            "maxProperties": 32,
        },
        "rejected": _list(_ALTERNATIVE, 64),
    }
)

_VP = _object(
    {
        "uuid": _UUID,
        "name": _TEXT,
        "project_id": {"type": "string", "maxLength": 64},
        "flavor": _TEXT,
        "vcpus": _COUNT,
        "isolation": {"enum": ["none", "soft", "strict"]},
        "unmanaged": _nullable(_TEXT),
        "unmanaged_detail": {"type": "string", "maxLength": 1024},
        "domains": _list(_COUNT, 64),
        "cpus": _TEXT,
        "state": _nullable({"type": "integer", "minimum": 0, "maximum": 8}),
        "since": _nullable(_NUMBER),
        "incomplete": _nullable(_TEXT),
        "sensitivity": _list({"enum": ["cache", "memory", "remote-latency"]}, 3),
        "metrics": _nullable(
            _object(
                {
                    "mpki": _NUMBER,
                    "l2_mpki": _NUMBER,
                    "memory_factor": _NUMBER,
                    "cpi": _NUMBER,
                    "cpu_cores": _NUMBER,
                    "misses_per_s": _NUMBER,
                    "remote_ratio": _NUMBER,
                    "running_ratio": _NUMBER,
                }
            )
        ),
        "interference": _nullable(
            _object(
                {
                    "kind": {"enum": ["cache"]},
                    "since": _NUMBER,
                    "suspects": _list(_object({"uuid": _UUID, "rise_per_s": _NUMBER}), 64),
                    "refused": _list(_ALTERNATIVE, 16),
                }
            )
        ),
        "actions": _list(_ACTION, 16),
    }
)

REPORT_SCHEMA = _object(
    {
        **_HEAD,
        "at": _NUMBER,
        "counters": _object(
            {"source": _TEXT, "problems": _list({"type": "string", "maxLength": 1024}, 16)}
        ),
        "actuator": _TEXT,
        "domains": _list(
            _object(
                {
                    "id": _COUNT,
                    "node": _COUNT,
                    "cpus": _TEXT,
                    "free_cores": _NUMBER,
                    "vcpus": _NUMBER,
                    "misses_per_s": _NUMBER,
                }
            ),
            1024,
        ),
        "vps": _list(_VP, 4096),
        "proposals": _list(_ACTION, 256),
    }
)
"""`at`, `since` and `actions[].at` are seconds since the Unix epoch by the host's clock, for people
to read; freshness is judged by the receiver's own clock."""


class BadMessage(Exception):
    """The message is not one of ours: shape, size or version. It is counted and dropped."""


@dataclass(frozen=True, slots=True)
class Order:
    """Which of two messages of one host is the newer."""

    epoch: int
    sequence: int

    def is_newer_than(self, other: "Order | None") -> bool:
        if other is None:
            return True
        return (self.epoch, self.sequence) > (other.epoch, other.sequence)


_VALIDATORS = {
    DIGEST_TOPIC: (jsonschema.Draft202012Validator(DIGEST_SCHEMA), MAX_DIGEST_BYTES),
    REPORT_TOPIC: (jsonschema.Draft202012Validator(REPORT_SCHEMA), MAX_REPORT_BYTES),
}


def encode(topic: str, message: Mapping[str, Any]) -> str:
    """ASCII JSON text. Raises BadMessage if it has no JSON form or is larger than receivers take.

    Its shape is not checked: that costs the sender a hundred times what the rest does, and the
    receiver does it anyway.
    """
    most = _VALIDATORS[topic][1]
    try:
        text = compact(message)
    except ValueError as exc:
        raise BadMessage(f"{topic}: {exc}") from exc
    if len(text) > most:
        raise BadMessage(f"{topic}: {len(text)} bytes, at most {most} are sent")
    return text


def compact(value: object) -> str:
    """Raises ValueError for numbers that JSON does not have."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


def decode(topic: str, text: object) -> dict[str, Any]:
    """The message, valid in shape and size. Raises BadMessage with the first fault found."""
    validator, most = _VALIDATORS[topic]
    if not isinstance(text, str) or len(text) > most or not text.isascii():
        raise BadMessage(f"{topic}: not an ASCII text of at most {most} bytes")
    try:
        message = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
        fault = next(validator.iter_errors(message), None)
    except (ValueError, RecursionError) as exc:
        raise BadMessage(f"{topic}: not JSON: {str(exc)[:200]}") from exc
    if fault is not None:
        raise BadMessage(f"{topic}: {fault.json_path}: violates {fault.validator}")
    return dict(message)


def _finite(text: str) -> float:
    """`1e999` is valid JSON and would be infinite here."""
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text[:20]} is too large")
    return number


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a number we accept")


def is_host_name(text: str) -> bool:
    return re.match(_HOST_NAME, text) is not None


def order_of(message: Mapping[str, Any]) -> Order:
    return Order(message["epoch"], message["seq"])


def pack_known(uuids: Iterable[str]) -> str:
    """Which servers a digest has counted: 16 bits each, so that 100 VMs fit into 268 characters.

    A newcomer is mistaken for a known server once in 65536 / (servers of the host).
    """
    marks = sorted({mark_of(uuid) for uuid in uuids})
    return base64.b64encode(b"".join(m.to_bytes(2, "big") for m in marks)).decode()


def unpack_known(known: str) -> frozenset[int]:
    """The marks of `pack_known`. Raises BadMessage."""
    try:
        raw = base64.b64decode(known, validate=True)
    except ValueError as exc:
        raise BadMessage(f"known: {exc}") from exc
    return frozenset(int.from_bytes(raw[i : i + 2], "big") for i in range(0, len(raw) - 1, 2))


def mark_of(uuid: str) -> int:
    return zlib.crc32(uuid.lower().encode()) & 0xFFFF
