# SPDX-License-Identifier: Apache-2.0
"""`vp-manage`: what an operator does by hand and rarely, next to the database."""

import sys
from typing import Any

from oslo_config import cfg

from nova_vp.conf import database
from nova_vp.db import schema


def main(argv: list[str] | None = None) -> int:
    conf = cfg.ConfigOpts()
    database.register_opts(conf)
    conf.register_cli_opt(cfg.SubCommandOpt("category", title="commands", handler=_add_commands))
    conf(sys.argv[1:] if argv is None else argv, project="nova-vp", prog="vp-manage")
    conf.category.run(conf)
    return 0


def _add_commands(subparsers: Any) -> None:
    db = subparsers.add_parser("db", help="the schema of the database")
    actions = db.add_subparsers(dest="action", required=True)
    sync = actions.add_parser("sync", help="bring the schema to the newest revision")
    sync.set_defaults(run=_sync)
    version = actions.add_parser("version", help="print the revision the database has")
    version.set_defaults(run=_print_version)


def _sync(conf: cfg.ConfigOpts) -> None:
    schema.upgrade(schema.open_engine(conf))


def _print_version(conf: cfg.ConfigOpts) -> None:
    revision = schema.current_revision(schema.open_engine(conf))
    print(revision or "no tables yet; `vp-manage db sync` makes them")
