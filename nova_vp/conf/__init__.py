# SPDX-License-Identifier: Apache-2.0
"""Options, one module per group: registered on the object handed in, read once into frozen types.

The sample file is generated from here (`oslo-config-generator --namespace nova_vp`), so each
default stands once, in the option, with its unit and its reason in the help. `[database]` is not
among them: the store registers oslo.db's options itself, so that hosts need no oslo.db.
"""

import argparse
import math
import re
from collections.abc import Iterator, Sequence

from oslo_config import cfg

from nova_vp.conf import agent, api, bus, compute, escalation, policy, scheduler

GROUPS = (agent, policy, bus, scheduler, escalation, api, compute)
PROJECT = "nova-vp"
LOOKED_IN = f"~/.{PROJECT}, ~, /etc/{PROJECT} or /etc"
"""By oslo.config, for files that nobody names."""
_LOCATION = re.compile(r" from LocationInfo\(location=<[^>]*>, detail='([^']*)'\)")
"""As oslo.config says where a wrong value is."""


def register_all(conf: cfg.ConfigOpts) -> None:
    for module in GROUPS:
        module.register_opts(conf)


def read(conf: cfg.ConfigOpts, argv: Sequence[str], program: str) -> None:
    """Raises cfg.Error, also for files that nobody can read or that are no text."""
    try:
        conf(argv, project=PROJECT, prog=program)
    except (OSError, UnicodeError) as exc:
        raise cfg.Error(f"a file cannot be read: {exc}") from exc


def read_command_line(conf: cfg.ConfigOpts, argv: Sequence[str], program: str) -> None:
    """No file, where one cannot be read: which command is asked for, with the defaults."""
    files = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    files.add_argument("--config-file")
    files.add_argument("--config-dir")
    _, words = files.parse_known_args(argv)
    conf(words, project=PROJECT, prog=program, default_config_files=[], default_config_dirs=[])


def origin(conf: cfg.ConfigOpts, looked: str = f"{LOOKED_IN}; --config-file names one") -> str:
    """Which files were read, or where none was found: a wrong value may come from either."""
    if found := [*conf.config_file, *conf.config_dir]:
        return f"configuration read from {', '.join(found)}"
    names = " or ".join(f"{name}.conf" for name in dict.fromkeys((PROJECT, str(conf.prog))))
    return f"no configuration file was found, so the defaults apply: no {names} in {looked}"


def check(conf: cfg.ConfigOpts) -> None:
    """Raises cfg.Error for numbers that oslo.config lets pass and nobody can calculate with."""
    for fault in faults(conf):
        raise cfg.Error(fault)


def faults(conf: cfg.ConfigOpts) -> Iterator[str]:
    """Every value that makes no sense, and what to do."""
    for group, options in list_opts():
        for option in options:
            fault = fault_of(conf, group, option)
            if fault is not None:
                yield fault


def fault_of(conf: cfg.ConfigOpts, group: str, option: cfg.Opt) -> str | None:
    """What is wrong with the option's value and what to do; None: nothing is."""
    try:
        value = conf[group][option.dest]
    except (cfg.Error, ValueError) as exc:
        said = _LOCATION.sub(r" in \1", str(exc))
        default = option.default if option.default not in ("", None) else "empty"
        return f"[{group}] {option.dest}: {said}; its default is {default}"
    if not isinstance(option, cfg.FloatOpt | cfg.IntOpt) or _is_number(value):
        return None
    return (
        f"[{group}] {option.dest} = {'' if value is None else value}: give a finite number, "
        f"or remove the line to use the default, {option.default}"
    )


def _is_number(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [entry for module in GROUPS for entry in module.list_opts()]
