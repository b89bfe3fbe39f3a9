# SPDX-License-Identifier: Apache-2.0
"""Policies for tests: any number by its name, whether it is the core's or a controller's own."""

import dataclasses
import enum
from collections.abc import Iterable
from typing import Any

from nova_vp.controllers import by_default, with_controllers, with_settings
from nova_vp.core.types.policy import Policy

CORE = {field.name for field in dataclasses.fields(Policy)} - {"controllers"}


def a_policy(controllers: Iterable[str] | None = None, **numbers: Any) -> Policy:
    """That of an installation without configuration, but for these numbers; or with these
    controllers alone."""
    names = by_default() if controllers is None else controllers
    return with_numbers(Policy(), controllers=names, **numbers)


def with_numbers(
    policy: Policy, controllers: Iterable[str] | None = None, **numbers: Any
) -> Policy:
    """With these instead. Enums may be given as their text."""
    core = {name: value for name, value in numbers.items() if name in CORE}
    before = policy.controllers
    policy = dataclasses.replace(policy, **core)
    if controllers is not None:
        policy = with_controllers(policy, controllers)
        known = {one.controller.name: one for one in before}
        kept = tuple(known.get(one.controller.name, one) for one in policy.controllers)
        policy = dataclasses.replace(policy, controllers=kept)
    for one in policy.controllers:
        own = {field.name: field for field in dataclasses.fields(one.settings)}
        values = {name: _value(own[name], numbers[name]) for name in numbers.keys() & own.keys()}
        policy = with_settings(policy, one.controller.name, **values)
    return policy


def _value(field: "dataclasses.Field[Any]", value: Any) -> Any:
    is_enum = isinstance(field.default, enum.Enum)
    return type(field.default)(value) if is_enum else value


def settings_of(policy: Policy, controller: str) -> Any:
    """Of one controller that is enabled."""
    return next(one.settings for one in policy.controllers if one.controller.name == controller)
