# SPDX-License-Identifier: Apache-2.0
"""`vp-manage`: what an operator does by hand and rarely, next to the database."""

import argparse
import sys
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from oslo_config import cfg

from nova_vp import conf as options
from nova_vp.cli.exit_status import quietly
from nova_vp.cmd import manage_credentials
from nova_vp.conf import database, scheduler
from nova_vp.db import schema
from nova_vp.db.bus_keys import BusKeyStore
from nova_vp.db.purge import Before
from nova_vp.db.report_store import ERRORS, ReportStore
from nova_vp.service.broker_accounts import user_of
from nova_vp.signing.senders import Process, Sender


def main(argv: list[str] | None = None) -> int:
    conf = cfg.ConfigOpts()
    database.register_opts(conf)
    scheduler.register_opts(conf)
    conf.register_cli_opt(cfg.SubCommandOpt("category", title="commands", handler=_add_commands))
    try:
        options.read(conf, sys.argv[1:] if argv is None else argv, "vp-manage")
        return quietly(lambda: conf.category.run(conf) or 0)
    except ERRORS as exc:
        fault = _fault(conf, exc)
    except cfg.Error as exc:
        fault = f"configuration: {exc}"
    except ModuleNotFoundError as exc:
        fault = schema.missing_driver(exc)
    print(f"vp-manage: {fault}", file=sys.stderr)
    return 1


def _fault(conf: cfg.ConfigOpts, exc: Exception) -> str:
    said = str(exc).partition("\n")[0]
    if "database is locked" in said:
        what = (
            "another process has locked the SQLite database: wait for it or end it (`fuser -v "
            "FILE` lists the processes that have the file open), then repeat this command; or use "
            "MariaDB or PostgreSQL, see [database] connection"
        )
    else:
        what = (
            "the database cannot be used: check [database] connection, and that `vp-manage db "
            f"sync` was run: {said}"
        )
    return f"{what}\n[database] connection = {database.shown(conf)}\n{options.origin(conf)}"


def _add_commands(subparsers: Any) -> None:
    _add_db(subparsers.add_parser("db", help="Manage the schema and the data of the database"))
    _add_host(subparsers.add_parser("host", help="Manage the known hosts"))
    credentials = subparsers.add_parser("credentials", help="Manage who may speak on the bus")
    manage_credentials.add_commands(credentials)


def _add_db(db: argparse.ArgumentParser) -> None:
    actions = db.add_subparsers(dest="action", required=True)
    sync = actions.add_parser("sync", help="Upgrade the schema to the newest revision")
    sync.set_defaults(run=_sync)
    version = actions.add_parser("version", help="Print the schema revision of the database")
    version.set_defaults(run=_print_version)
    old = actions.add_parser(
        "purge",
        help="Delete expired data, as vp-scheduler does regularly; can be stopped and repeated",
    )
    until = old.add_mutually_exclusive_group()
    until.add_argument(
        "--before",
        type=_moment,
        metavar="DATE",
        help="Delete data from before this day (UTC): YYYY-MM-DD",
    )
    until.add_argument(
        "--keep-days",
        type=_days,
        metavar="N",
        help="Days to keep, instead of [vp_scheduler] history_days and ledger_days; usage is kept "
        "for [vp_scheduler] usage_days in any case",
    )
    old.set_defaults(run=_purge)


def _add_host(host: argparse.ArgumentParser) -> None:
    actions = host.add_subparsers(dest="action", required=True)
    forget = actions.add_parser(
        "forget", help="Remove a decommissioned host from the list of hosts"
    )
    forget.add_argument("host", metavar="NAME", help="Name of the host")
    forget.set_defaults(run=_forget)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def _days(text: str) -> int:
    if not 0 <= (days := int(text)) <= 36500:
        raise argparse.ArgumentTypeError("give 0 to 36500 days")
    return days


def _sync(conf: cfg.ConfigOpts) -> None:
    conf.set_override("answer_timeout_s", database.SYNC_ANSWER_TIMEOUT_S, database.GROUP)
    schema.upgrade(schema.open_engine(conf))


def _print_version(conf: cfg.ConfigOpts) -> None:
    revision = schema.current_revision(schema.open_engine(conf))
    print(revision or "no tables yet; create them with `vp-manage db sync`")


def _purge(conf: cfg.ConfigOpts) -> None:
    now = datetime.now(UTC)
    given, settings = conf.category, conf.vp_scheduler
    before = Before.days_ago(now, settings.history_days, settings.ledger_days, settings.usage_days)
    if given.before is not None:
        before = replace(before, history=given.before, ledger=given.before)
    elif given.keep_days is not None:
        before = Before.days_ago(now, given.keep_days, given.keep_days, settings.usage_days)
    gone: Counter[str] = Counter()
    for step in ReportStore(conf).purge(before, now):
        gone[step.table] += step.rows
        print(f"{step.table}: {gone[step.table]} rows", file=sys.stderr, flush=True)
    print(", ".join(f"{table} {rows}" for table, rows in gone.items()) or "nothing to delete")


def _forget(conf: cfg.ConfigOpts) -> int:
    name = conf.category.host
    agent = Sender(Process.AGENT, name)
    was_known = ReportStore(conf).forget_host(name)
    retired = BusKeyStore(conf).retire(agent, datetime.now(UTC))
    if not (was_known or retired):
        print(
            f"{name} is not a known host; `openstack vp host list` lists the known hosts, "
            "`vp-manage credentials list` those that have keys"
        )
        return 1
    print(
        f"{name} is removed, and {retired} keys of it are retired: it is not heard again\n"
        f"so that it cannot connect either: rabbitmqctl delete_user {user_of(agent)}\n"
        f"to use it once more: vp-manage credentials create --host {name} …"
    )
    return 0
