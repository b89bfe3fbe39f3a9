# SPDX-License-Identifier: Apache-2.0
"""The installed controllers, by entry point (`nova_vp.controllers`), and what they declare.

Configuration, validators, labels, recordings and documentation read it, so that a controller of
another package needs no change here. What a controller is: `nova_vp.core.controllers.base`.
"""

import dataclasses
import functools
import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from stevedore import ExtensionManager

from nova_vp.core.controllers.base import Controller
from nova_vp.core.types.declaration import FlavorKey
from nova_vp.core.types.policy import Enabled, Policy
from nova_vp.core.types.reason import PIPELINE_REASONS, Reason

LOG = logging.getLogger(__name__)
NAMESPACE = "nova_vp.controllers"


class ControllerUnavailable(Exception):
    """No such controller, or one that cannot be used. The message says what to do."""


@functools.cache
def installed() -> Mapping[str, Controller]:
    """By name. A package that is broken is left out, with a warning: it must not keep the others
    from working."""
    manager = ExtensionManager(NAMESPACE, on_load_failure_callback=_not_loaded)
    found: dict[str, Controller] = {}
    for extension in sorted(manager, key=lambda one: str(one.name)):
        try:
            one = extension.plugin()
            _check(extension.name, one, found.values())
        except Exception as exc:  # Whatever another package may raise.
            _not_loaded(manager, extension.entry_point, exc)
            continue
        found[extension.name] = one
    return MappingProxyType(found)


def _not_loaded(manager: Any, entry_point: Any, exc: Exception) -> None:
    LOG.warning(
        "controller %s (%s) is left out: %s; update or uninstall its package",
        entry_point.name,
        entry_point.value,
        exc,
    )


def _check(name: str, one: Any, others: Iterable[Controller]) -> None:
    """Raises ControllerUnavailable."""
    if not isinstance(one, Controller):
        raise ControllerUnavailable(f"{one!r} is no nova_vp.core.controllers.base.Controller")
    if one.name != name:
        raise ControllerUnavailable(f"its entry point is {name!r}, its name {one.name!r}")
    for kind in (one.settings, one.state):
        if not (dataclasses.is_dataclass(kind) and kind.__dataclass_params__.frozen):  # type: ignore[attr-defined]
            raise ControllerUnavailable(f"{kind.__name__} is no frozen dataclass")
        kind()
    taken = {reason.code for reason in PIPELINE_REASONS}
    taken |= {reason.code for other in others for reason in other.reasons}
    keys = {key.key for other in others for key in other.flavor_keys}
    if again := taken & {reason.code for reason in one.reasons}:
        raise ControllerUnavailable(f"another controller has the reasons {sorted(again)}")
    if again := keys & {key.key for key in one.flavor_keys}:
        raise ControllerUnavailable(f"another controller has the flavor keys {sorted(again)}")
    if wrong := [key.key for key in one.flavor_keys if not key.key.startswith("vp:")]:
        raise ControllerUnavailable(f"flavor keys {wrong} are not in the namespace vp:")


def find(name: str) -> Controller:
    """Raises ControllerUnavailable."""
    try:
        return installed()[name]
    except KeyError:
        known = ", ".join(installed())
        raise ControllerUnavailable(
            f"{name!r} is not an installed controller: use {known}, or install its package"
        ) from None


def by_default() -> tuple[str, ...]:
    return tuple(name for name, one in installed().items() if one.is_default)


def with_controllers(policy: Policy, names: Iterable[str]) -> Policy:
    """These are enabled, each with its own settings' defaults. Raises ControllerUnavailable."""
    found = [find(name) for name in sorted(set(names))]
    return dataclasses.replace(
        policy, controllers=tuple(Enabled(one, one.settings()) for one in found)
    )


def default_policy(**numbers: Any) -> Policy:
    """What an installation without any configuration has, but for these numbers."""
    return with_controllers(Policy(**numbers), by_default())


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


def flavor_keys() -> tuple[FlavorKey[Any], ...]:
    return tuple(key for one in installed().values() for key in one.flavor_keys)
