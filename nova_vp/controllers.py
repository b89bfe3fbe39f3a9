# SPDX-License-Identifier: Apache-2.0
"""The installed controllers, by entry point (`nova_vp.controllers`), and what they declare.

Configuration, validators, labels, recordings and documentation read it, so that a controller of
another package needs no change here. What a controller is: `nova_vp.core.controllers.base`.
"""

import dataclasses
import functools
import logging
import math
import re
from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Any

from stevedore import ExtensionManager

from nova_vp.core.controllers.base import Controller
from nova_vp.core.types.declaration import Figure, FlavorKey
from nova_vp.core.types.policy import Enabled, Policy
from nova_vp.core.types.reason import INEFFECTIVE, PIPELINE_REASONS, Reason

LOG = logging.getLogger(__name__)
NAMESPACE = "nova_vp.controllers"


_OWN = "nova_vp.core.controllers."
_NAME = re.compile(r"[a-z][a-z0-9_]*")
_KINDS = (int, float, bool, str)


class ControllerUnavailable(Exception):
    """No such controller, or one that cannot be used. The message says what to do."""


@functools.cache
def installed() -> Mapping[str, Controller]:
    """By name. A package that is broken is left out, with a warning: it must not keep the others
    from working. Those of this project come first, so that no other package can put one out."""
    manager = ExtensionManager(NAMESPACE, on_load_failure_callback=_not_loaded)
    found: dict[str, Controller] = {}
    for extension in sorted(manager, key=_precedence):
        try:
            one = extension.plugin()
            _check(extension.name, one, found.values())
        except Exception as exc:  # Whatever another package may raise.
            _not_loaded(manager, extension.entry_point, exc)
            continue
        found[extension.name] = one
    return MappingProxyType(dict(sorted(found.items())))


def _precedence(extension: Any) -> tuple[bool, str]:
    return not extension.entry_point.value.startswith(_OWN), str(extension.name)


def _not_loaded(manager: Any, entry_point: Any, exc: Exception) -> None:
    LOG.warning(
        "controller %s (%s) is left out: %s; update or uninstall its package",
        entry_point.name,
        entry_point.value,
        exc,
    )


def _check(name: str, one: Any, others: Collection[Controller]) -> None:
    """Raises ControllerUnavailable."""
    if not isinstance(one, Controller) or type(one).run is Controller.run:
        raise ControllerUnavailable(f"{one!r} is no Controller that runs")
    if one.name != name:
        raise ControllerUnavailable(f"its entry point is {name!r}, its name {one.name!r}")
    if not _NAME.fullmatch(name):
        raise ControllerUnavailable(f"{name!r} is no name of small letters, digits and _")
    if name in {other.name for other in others}:
        raise ControllerUnavailable("another package has a controller of that name")
    if not isinstance(getattr(one, "summary", None), str):
        raise ControllerUnavailable("it has no summary")
    for kind in (one.settings, one.state):
        if not (dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen):  # type: ignore[attr-defined]
            raise ControllerUnavailable(f"{kind.__name__} is no frozen dataclass")
        kind()
    for field in dataclasses.fields(one.settings):
        _check_option(field)
    _check_reasons(one, others)
    _check_keys(one, others)
    _check_figures(one)


def _check_option(field: "dataclasses.Field[Any]") -> None:
    """Raises ControllerUnavailable."""
    about = field.metadata
    default: Any = field.default
    if not isinstance(about.get("description"), str):
        raise ControllerUnavailable(f"its setting {field.name} is not made with option()")
    if about["choices"]:
        if default not in about["choices"] or not isinstance(default.value, str):
            raise ControllerUnavailable(f"its setting {field.name} has no default of its choices")
        return
    if type(default) not in _KINDS:
        kinds = ", ".join(kind.__name__ for kind in _KINDS)
        raise ControllerUnavailable(
            f"its setting {field.name} is a {type(default).__name__}: use {kinds}, or an enum of "
            "texts with choices"
        )
    if about["check"] and not isinstance(default, str):
        raise ControllerUnavailable(f"its setting {field.name} is no text and has a check")
    bounds = [one for one in (about["minimum"], about["maximum"]) if one is not None]
    is_number = type(default) in (int, float)
    if bounds and not is_number:
        raise ControllerUnavailable(f"its setting {field.name} is no number and has bounds")
    least, most = about["minimum"], about["maximum"]
    if is_number and not (-math.inf if least is None else least) <= default <= (
        math.inf if most is None else most
    ):
        raise ControllerUnavailable(f"the default of its setting {field.name} is out of bounds")


def _check_reasons(one: Controller, others: Iterable[Controller]) -> None:
    """Raises ControllerUnavailable."""
    codes = [reason.code for reason in one.reasons]
    taken = {reason.code for reason in PIPELINE_REASONS}
    taken |= {reason.code for other in others for reason in other.reasons}
    if again := sorted(taken & set(codes)):
        raise ControllerUnavailable(f"another controller has the reasons {again}")
    if len(set(codes)) < len(codes):
        raise ControllerUnavailable(f"it has a reason twice: {sorted(codes)}")
    for reason in one.reasons:
        if reason.is_revert or not isinstance(reason.rank, int) or reason.rank <= INEFFECTIVE.rank:
            raise ControllerUnavailable(
                f"its reason {reason.code} ranks with reverts: give it a rank above "
                f"{INEFFECTIVE.rank}"
            )


def _check_keys(one: Controller, others: Iterable[Controller]) -> None:
    """Raises ControllerUnavailable."""
    names = [key.key for key in one.flavor_keys]
    if again := sorted({key.key for other in others for key in other.flavor_keys} & set(names)):
        raise ControllerUnavailable(f"another controller has the flavor keys {again}")
    if len(set(names)) < len(names):
        raise ControllerUnavailable(f"it has a flavor key twice: {sorted(names)}")
    for key in one.flavor_keys:
        if not key.key.startswith("vp:"):
            raise ControllerUnavailable(f"its flavor key {key.key} is not in the namespace vp:")
        if not key.allowed and not key.pattern:
            raise ControllerUnavailable(f"its flavor key {key.key} allows no value")
        re.compile(key.pattern)


def _check_figures(one: Controller) -> None:
    """Raises ControllerUnavailable."""
    names = [figure.name for figure in one.figures]
    if len(set(names)) < len(names):
        raise ControllerUnavailable(f"it has a figure twice: {sorted(names)}")
    if wrong := [name for name in names if not _NAME.fullmatch(name)]:
        raise ControllerUnavailable(f"{wrong} are no names of small letters, digits and _")


def find(name: str) -> Controller:
    """Raises ControllerUnavailable."""
    try:
        return installed()[name]
    except KeyError:
        raise ControllerUnavailable(unknown(name)) from None


def unknown(name: str) -> str:
    """What to do about a name that no installed controller has."""
    if name == "rearrange":
        return "'rearrange' is not an installed controller: its name is rebalance"
    known = ", ".join(installed())
    return f"{name[:80]!r} is not an installed controller: use {known}, or install its package"


def by_default() -> tuple[str, ...]:
    return tuple(name for name, one in installed().items() if one.is_default)


def with_controllers(policy: Policy, names: Iterable[str]) -> Policy:
    """These are enabled, each with its own settings' defaults. Raises ControllerUnavailable."""
    found = [find(name) for name in sorted(set(names))]
    return dataclasses.replace(
        policy, controllers=tuple(Enabled(one, one.settings()) for one in found)
    )


def with_settings(policy: Policy, name: str, **values: Any) -> Policy:
    """One enabled controller has these settings. Raises ControllerUnavailable."""
    if name not in {one.controller.name for one in policy.controllers}:
        raise ControllerUnavailable(f"controller {name!r} is not enabled")
    return dataclasses.replace(
        policy,
        controllers=tuple(
            Enabled(one.controller, dataclasses.replace(one.settings, **values))
            if one.controller.name == name
            else one
            for one in policy.controllers
        ),
    )


@functools.cache
def reasons() -> Mapping[str, Reason]:
    """By code, those of the pipeline too."""
    own = (reason for one in installed().values() for reason in one.reasons)
    return MappingProxyType({reason.code: reason for reason in (*PIPELINE_REASONS, *own)})


def figures(name: str) -> tuple[Figure, ...]:
    """Of one controller; empty, if it is not installed here."""
    one = installed().get(name)
    return one.figures if one else ()


def flavor_keys() -> tuple[FlavorKey[Any], ...]:
    return tuple(key for one in installed().values() for key in one.flavor_keys)
