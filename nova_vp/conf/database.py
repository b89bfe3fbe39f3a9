# SPDX-License-Identifier: Apache-2.0
"""`[database]`: oslo.db's own options, with a default that needs no server."""

from typing import Any

from oslo_config import cfg
from oslo_db import options
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

GROUP = "database"
DEFAULT_CONNECTION = "sqlite:////var/lib/nova-vp/nova-vp.sqlite"


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Not for Nova's own configuration object: there the group is the cell's database."""
    options.set_defaults(conf, connection=DEFAULT_CONNECTION)


def shown(conf: cfg.ConfigOpts) -> str:
    """Which database is asked, for anybody to read: neither password nor driver's options."""
    try:
        url = make_url(conf[GROUP].connection or "")
    except ArgumentError:
        return "not a database URL"
    return url.set(query={}).render_as_string(hide_password=True)


def set_sample_defaults() -> None:
    """So that the generated sample shows our default; oslo-config-generator calls it."""
    cfg.set_defaults(options.database_opts, connection=DEFAULT_CONNECTION)


def engine_options(conf: cfg.ConfigOpts) -> dict[str, Any]:
    """What oslo.db's engine facade takes, read once."""
    return {name: value for name, value in conf[GROUP].items() if name != "backend"}
