# SPDX-License-Identifier: Apache-2.0
"""Options, one module per group: registered on the object handed in, read once into frozen types.

The sample file is generated from here (`oslo-config-generator --namespace nova_vp`), so each
default stands once, in the option, with its unit and its reason in the help. `[database]` is not
among them: the store registers oslo.db's options itself, so that hosts need no oslo.db.
"""

from oslo_config import cfg

from nova_vp.conf import agent, bus, scheduler

GROUPS = (agent, bus, scheduler)


def register_all(conf: cfg.ConfigOpts) -> None:
    for module in GROUPS:
        module.register_opts(conf)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [entry for module in GROUPS for entry in module.list_opts()]
