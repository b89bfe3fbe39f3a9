# SPDX-License-Identifier: Apache-2.0
"""Arbitrary values of the core's types, from their type hints: for property tests."""

import dataclasses
import enum
import types
import typing
from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from nova_vp.controllers import installed, reasons
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Enabled
from nova_vp.core.types.reason import Reason
from nova_vp.core.types.sample import Reading

_FEW = 3


def values_of(kind: Any) -> st.SearchStrategy[Any]:
    origin, args = typing.get_origin(kind), typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*map(values_of, args))
    if origin is tuple and args[-1] is ...:
        return st.lists(values_of(args[0]), max_size=_FEW).map(tuple)
    if origin is tuple:
        return st.tuples(*map(values_of, args))
    if origin is frozenset:
        return st.frozensets(values_of(args[0]), max_size=_FEW)
    if (origin, args) == (Mapping, (str, Any)):
        return controller_states()
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return st.dictionaries(values_of(args[0]), values_of(args[1]), max_size=_FEW)
    return _plain_values_of(kind)


def _plain_values_of(kind: Any) -> st.SearchStrategy[Any]:
    if kind is Picture:
        return pictures()
    if kind is Reason:
        return st.sampled_from(list(reasons().values()))
    if kind is Enabled:
        return st.one_of(
            [
                st.builds(Enabled, st.just(one), values_of(one.settings))
                for one in installed().values()
            ]
        )
    if kind is type(None):
        return st.none()
    if kind is float:
        return st.floats(allow_nan=False)
    if issubclass(kind, enum.Enum):
        return st.sampled_from(list(kind))
    simple = {int: st.integers(), str: st.text(max_size=8), bool: st.booleans()}
    return simple[kind] if kind in simple else st.builds(kind, **_fields_of(kind))


def _fields_of(kind: type) -> dict[str, st.SearchStrategy[Any]]:
    hints = typing.get_type_hints(kind)
    if dataclasses.is_dataclass(kind):
        names = [field.name for field in dataclasses.fields(kind) if field.init]
    else:
        names = list(kind._fields)
    # Deferred: a Decision is a tree of types, and most of it is not drawn.
    return {name: st.deferred(lambda hint=hints[name]: values_of(hint)) for name in names}


def controller_states() -> st.SearchStrategy[Mapping[str, Any]]:
    """What any of the installed controllers remember."""
    known = {one.name: values_of(one.state) for one in installed().values()}
    return st.fixed_dictionaries({}, optional=known)


def pictures() -> st.SearchStrategy[Picture]:
    """Guests of few names, each once: two pictures have some in common."""
    uuids = st.sampled_from(["a", "b", "c", "d"])
    guests = st.builds(Guest, **(_fields_of(Guest) | {"uuid": uuids}))
    about = _fields_of(Picture)
    about["guests"] = st.lists(guests, max_size=_FEW, unique_by=lambda g: g.uuid).map(tuple)
    about["readings"] = st.dictionaries(uuids, values_of(Reading), max_size=_FEW)
    return st.builds(Picture, **about)
