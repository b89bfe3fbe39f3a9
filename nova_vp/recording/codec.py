# SPDX-License-Identifier: Apache-2.0
"""Core values to JSON and back, exactly, made from their type hints.

A type that the core adds or changes needs nothing here. What equals a field's default, or the
same field of an earlier value, is left out. Text from outside is checked while it is read.
"""

import dataclasses
import enum
import functools
import types
import typing
from collections.abc import Callable, Container, Mapping
from typing import Any, NamedTuple, cast

from nova_vp import controllers
from nova_vp.core.controllers.base import Controller
from nova_vp.core.types.knob import (
    Cpus,
    CpuWeight,
    EmulatorWeight,
    Knob,
    LlcShare,
    MembwShare,
    MemorySize,
    Quota,
    Shares,
    Value,
)
from nova_vp.core.types.policy import Enabled
from nova_vp.core.types.reason import Reason

Json = Any


class Malformed(ValueError):
    """That is not the value that should stand there."""


class Codec(NamedTuple):
    encode: Callable[[Any], Json]
    decode: Callable[[Json], Any]
    """Raises Malformed."""


@functools.cache
def codec_of(kind: Any) -> Codec:
    """For a class of the core or a type hint in it. Raises TypeError for others."""
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return _knob_value() if set(args) == set(typing.get_args(Value)) else _optional(args)
    if kind in _BY_NAME:
        return _BY_NAME[kind]
    if origin is tuple:
        return _list_of(args[0], tuple) if args[-1] is ... else _row_of(args)
    if origin is frozenset:
        return _list_of(args[0], frozenset)
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if args == (str, Any):
            return _controller_states()
        return _texts_to(args[1]) if args[0] is str else _pairs_of(*args)
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return Codec(lambda member: member.value, _refusing(kind))
    if kind in (int, float, str, bool):
        return _plain(kind)
    if isinstance(kind, type) and (dataclasses.is_dataclass(kind) or hasattr(kind, "_fields")):
        record = record_of(kind)
        return Codec(record.encode, record.decode)
    raise TypeError(f"values of {kind} cannot be written down")


_NOTHING = object()
_NO_FIELDS: Mapping[str, Any] = types.MappingProxyType({})


class Record:
    """A dataclass or named tuple, as an object of those fields that differ from a base's."""

    def __init__(self, kind: type) -> None:
        hints = typing.get_type_hints(kind)
        self._kind = kind
        self._codecs = {name: codec_of(hints[name]) for name in _field_names(kind)}
        self._defaults = _defaults_of(kind)

    def encode(
        self, value: Any, base: Any = None, but: Container[str] = frozenset()
    ) -> dict[str, Json]:
        """`base`: an earlier value of the same kind that the reader has too. `but`: fields that
        the caller writes down himself."""
        found = {}
        for name, codec in self._codecs.items():
            now = getattr(value, name)
            was = self._defaults.get(name, _NOTHING) if base is None else getattr(base, name)
            if now is not was and now != was and name not in but:
                found[name] = codec.encode(now)
        return found

    def decode(self, data: Json, base: Any = None, given: Mapping[str, Any] = _NO_FIELDS) -> Any:
        """`given`: fields that the caller has read. Raises Malformed."""
        fields = _object(data)
        try:
            read = {name: self._codecs[name].decode(part) for name, part in fields.items()}
        except KeyError as exc:
            raise Malformed(f"{self._kind.__name__} has no {exc} in this version") from exc
        kept = {} if base is None else {name: getattr(base, name) for name in self._codecs}
        try:
            return self._kind(**{**kept, **read, **given})
        except TypeError as exc:
            raise Malformed(f"{self._kind.__name__}: {exc}") from exc


@functools.cache
def record_of(kind: type) -> Record:
    return Record(kind)


def _field_names(kind: type) -> tuple[str, ...]:
    if dataclasses.is_dataclass(kind):
        return tuple(field.name for field in dataclasses.fields(kind) if field.init)
    return cast(tuple[str, ...], kind._fields)  # type: ignore[attr-defined]


def _defaults_of(kind: type) -> Mapping[str, Any]:
    if not dataclasses.is_dataclass(kind):
        return cast(Mapping[str, Any], kind._field_defaults)  # type: ignore[attr-defined]
    found = {}
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING:
            found[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = field.default_factory()
    return found


_KNOB_OF: Mapping[type, Knob] = {
    Quota: Knob.CPU_CAP,
    CpuWeight: Knob.CPU_WEIGHT,
    LlcShare: Knob.LLC,
    MembwShare: Knob.MEMBW,
    MemorySize: Knob.MEMORY_SIZE,
    EmulatorWeight: Knob.EMULATOR_WEIGHT,
}


def _knob_value() -> Codec:
    """Which of the knobs' types it is must stand beside it: tuples look alike."""
    cpus, shares = codec_of(Cpus), codec_of(Shares)
    named = {
        **{knob.value: codec_of(kind) for kind, knob in _KNOB_OF.items()},
        Knob.PLACEMENT.value: cpus,
        Knob.MEMORY.value: shares,
    }

    def name_of(value: Value) -> str:
        for kind, knob in _KNOB_OF.items():
            if isinstance(value, kind):
                return knob.value
        is_cpus = bool(value) and isinstance(value[0], frozenset)
        return Knob.PLACEMENT.value if is_cpus else Knob.MEMORY.value

    def encode(value: Value) -> Json:
        name = name_of(value)
        return {name: named[name].encode(value)}

    def decode(data: Json) -> Value:
        [(name, part)] = _object(data).items() or [("", None)]
        if name not in named:
            raise Malformed(f"{name!r} is no knob")
        return cast(Value, named[name].decode(part))

    return Codec(encode, _refusing(decode))


def _encode_enabled(one: Enabled) -> Json:
    return [one.controller.name, record_of(one.controller.settings).encode(one.settings)]


def _decode_enabled(data: Json) -> Enabled:
    name, settings = _list(data)
    one = _controller(name)
    return Enabled(one, record_of(one.settings).decode(settings))


def _controller_states() -> Codec:
    """What controllers remember: whose it is says of which kind it is."""
    return Codec(
        lambda states: {
            name: record_of(_controller(name).state).encode(state) for name, state in states.items()
        },
        _refusing(
            lambda data: {
                name: record_of(_controller(name).state).decode(state)
                for name, state in _object(data).items()
            }
        ),
    )


def _controller(name: Json) -> Controller:
    try:
        return controllers.find(str(name))
    except controllers.ControllerUnavailable as exc:
        raise Malformed(str(exc)) from exc


def _reason(code: Json) -> Reason:
    found = controllers.reasons().get(str(code))
    if found is None:
        raise Malformed(f"no installed controller has the reason {str(code)[:40]!r}")
    return found


def _optional(args: tuple[Any, ...]) -> Codec:
    kinds = [kind for kind in args if kind is not type(None)]
    if len(kinds) != 1 or len(kinds) == len(args):
        raise TypeError(f"which of {args} a value is cannot be written down")
    inner = codec_of(kinds[0])
    return Codec(
        lambda value: None if value is None else inner.encode(value),
        lambda data: None if data is None else inner.decode(data),
    )


def _list_of(kind: Any, container: Callable[[Any], Any]) -> Codec:
    """Sets in one order, so that the same value is the same text."""
    inner = codec_of(kind)

    def encode(value: Any) -> Json:
        parts = [inner.encode(part) for part in value]
        return sorted(parts) if container is frozenset else parts

    return Codec(encode, lambda data: container([inner.decode(part) for part in _list(data)]))


def _row_of(kinds: tuple[Any, ...]) -> Codec:
    inner = [codec_of(kind) for kind in kinds]

    def decode(data: Json) -> Any:
        parts = _list(data)
        if len(parts) != len(inner):
            raise Malformed(f"{len(parts)} values where {len(inner)} should stand")
        return tuple([codec.decode(part) for codec, part in zip(inner, parts, strict=True)])

    def encode(value: Any) -> Json:
        return [codec.encode(part) for codec, part in zip(inner, value, strict=True)]

    return Codec(encode, decode)


def _texts_to(kind: Any) -> Codec:
    inner = codec_of(kind)
    return Codec(
        lambda value: {key: inner.encode(part) for key, part in value.items()},
        lambda data: {key: inner.decode(part) for key, part in _object(data).items()},
    )


def _pairs_of(key_kind: Any, kind: Any) -> Codec:
    pairs = _list_of(tuple[key_kind, kind], tuple)
    return Codec(lambda value: pairs.encode(value.items()), lambda data: dict(pairs.decode(data)))


def _plain(kind: type) -> Codec:
    """Kept as it is: a float may be written as a whole number, and a count that was read from a
    file may be a whole float. Nothing else may stand for another."""

    def decode(data: Json) -> Any:
        is_number = kind is float or (kind is int and isinstance(data, float))
        if type(data) is not kind and not (is_number and _is_whole(data)):
            raise Malformed(f"{str(data)[:40]!r} where a {kind.__name__} should stand")
        return data

    return Codec(lambda value: value, decode)


def _is_whole(data: Json) -> bool:
    return type(data) is int or (isinstance(data, float) and data.is_integer())


def _refusing(decode: Callable[[Any], Any]) -> Callable[[Json], Any]:
    def guarded(data: Json) -> Any:
        try:
            return decode(data)
        except (ValueError, TypeError) as exc:
            raise exc if isinstance(exc, Malformed) else Malformed(str(exc)) from exc

    return guarded


def _object(data: Json) -> dict[str, Json]:
    if not isinstance(data, dict):
        raise Malformed(f"{str(data)[:40]!r} where an object should stand")
    return data


def _list(data: Json) -> list[Json]:
    if not isinstance(data, list):
        raise Malformed(f"{str(data)[:40]!r} where a list should stand")
    return data


_BY_NAME = {
    Enabled: Codec(_encode_enabled, _refusing(_decode_enabled)),
    Reason: Codec(lambda reason: reason.code, _refusing(_reason)),
}
"""What a controller declares, or is, is found by its name."""
