# SPDX-License-Identifier: Apache-2.0
"""`[controller_<name>]`: the options of a controller, made from the settings that it declares; and
the option of `[policy]` that enables it."""

import dataclasses
import enum
from collections.abc import Callable
from typing import Any

from oslo_config import cfg, types

from nova_vp import controllers
from nova_vp.core.controllers.base import Controller

POLICY = "policy"
"""The group that names those that are enabled; it had their own options in earlier releases."""


class ControllerName(types.String):  # type: ignore[misc]
    """Of an installed controller."""

    def __call__(self, value: Any) -> str:
        name = str(super().__call__(value))
        if name not in controllers.installed():
            raise ValueError(controllers.unknown(name))
        return name


class CheckedText(types.String):  # type: ignore[misc]
    """That the controller can read."""

    def __init__(self, check: Callable[[str], object]) -> None:
        super().__init__()
        self._check = check

    def __call__(self, value: Any) -> str:
        text = str(super().__call__(value))
        self._check(text)
        return text


def controllers_opt() -> cfg.Opt:
    """Which controllers there are is known once their packages are loaded."""
    known = controllers.installed()
    listed = "; ".join(f"`{name}` {one.summary}" for name, one in known.items())
    return cfg.ListOpt(
        "controllers",
        default=list(controllers.by_default()),
        item_type=ControllerName(),
        mutable=True,
        help=f"Enabled controllers: {listed}.",
    )


def group_of(name: str) -> str:
    """The group of a controller's own options."""
    return f"controller_{name}"


def settings_opts(one: Controller) -> list[cfg.Opt]:
    """The options of one controller, made from its settings."""
    return [_option_of(field) for field in dataclasses.fields(one.settings)]


_KINDS = {"int": cfg.IntOpt, "float": cfg.FloatOpt, "bool": cfg.BoolOpt, "str": cfg.StrOpt}


def _option_of(field: "dataclasses.Field[Any]") -> cfg.Opt:
    about = field.metadata
    kwargs: dict[str, Any] = {"help": about["description"], "mutable": True}
    if about["formerly"]:
        kwargs |= {"deprecated_name": about["formerly"], "deprecated_group": POLICY}
    if about["choices"]:
        choices = [(value.value, meaning) for value, meaning in about["choices"].items()]
        return cfg.StrOpt(field.name, default=field.default.value, choices=choices, **kwargs)
    if about["check"]:
        kind = CheckedText(about["check"])
        return cfg.Opt(field.name, type=kind, default=field.default, **kwargs)
    bounds = {"min": about["minimum"], "max": about["maximum"]}
    kwargs |= {name: bound for name, bound in bounds.items() if bound is not None}
    return _KINDS[type(field.default).__name__](field.name, default=field.default, **kwargs)


def settings_from(one: Controller, read: Callable[[str], Any]) -> Any:
    """A controller's settings, of its own kind. `read`: the value of each of its options."""
    fields = dataclasses.fields(one.settings)
    return one.settings(**{field.name: value_of(field, read(field.name)) for field in fields})


def value_of(field: "dataclasses.Field[Any]", value: Any) -> Any:
    """As the controller has it: an enum where its setting is one."""
    return type(field.default)(value) if isinstance(field.default, enum.Enum) else value
