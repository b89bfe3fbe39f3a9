# SPDX-License-Identifier: Apache-2.0
"""`[database]`: oslo.db's own options, with a default that needs no server, and a deadline.

Registered by those who ask it (`nova_vp.db`) and not with the rest, so that hosts need no oslo.db.
"""

from typing import Any

from oslo_config import cfg
from oslo_db import options
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError

GROUP = "database"
DEFAULT_CONNECTION = "sqlite:////var/lib/nova-vp/nova-vp.sqlite"
API_ANSWER_TIMEOUT_S = 3
SYNC_ANSWER_TIMEOUT_S = 24 * 3600
"""To change a large table takes its time."""

OPTS = [
    cfg.IntOpt(
        "answer_timeout_s",
        default=30,
        min=1,
        max=SYNC_ANSWER_TIMEOUT_S,
        help="Seconds to wait for an answer of MariaDB, MySQL or PostgreSQL, to a connection or a "
        "statement. A server that is silent for longer counts as not available. The default is "
        "for vp-scheduler and the commands, whose statements may wait for each other; vp-manage "
        f"db sync always waits for up to a day. vp-api has a default of its own, "
        f"{API_ANSWER_TIMEOUT_S}, and answers 503 after it: to change that alone, set it in "
        "vp-api.conf.",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Not for Nova's own configuration object: there the group is the cell's database."""
    options.set_defaults(conf, connection=DEFAULT_CONNECTION)
    conf.register_opts(OPTS, group=GROUP)


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    return [(GROUP, OPTS)]


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
    others = {"backend", *(option.dest for option in OPTS)}
    given = {name: value for name, value in conf[GROUP].items() if name not in others}
    # Who asks is told at once where connecting fails, and may ask again: oslo.db would hold on to
    # the thread for minutes, and connect before a deadline can be set.
    return {**given, "max_retries": 0}
