# SPDX-License-Identifier: Apache-2.0
"""Options, one module per group: registered on the object handed in, read once into frozen types.

The sample file is generated from here (`oslo-config-generator --namespace nova_vp`), so each
default stands once, in the option, with its unit and its reason in the help. `[database]` is not
among them: the store registers oslo.db's options itself, so that hosts need no oslo.db.
"""

import math

from oslo_config import cfg

from nova_vp.conf import agent, bus, scheduler

GROUPS = (agent, bus, scheduler)


def register_all(conf: cfg.ConfigOpts) -> None:
    for module in GROUPS:
        module.register_opts(conf)


def check(conf: cfg.ConfigOpts) -> None:
    """Raises cfg.Error for numbers that oslo.config lets pass and nobody can calculate with."""
    for group, options in list_opts():
        for option in options:
            value = conf[group][option.dest]
            if isinstance(option, cfg.FloatOpt | cfg.IntOpt) and not _is_number(value):
                raise cfg.Error(
                    f"[{group}] {option.dest} = {'' if value is None else value}: give a finite "
                    f"number, or leave the line out for the default, {option.default}"
                )


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [entry for module in GROUPS for entry in module.list_opts()]
