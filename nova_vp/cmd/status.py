# SPDX-License-Identifier: Apache-2.0
"""`vp-status upgrade check`: whether this release would run here, asked before it is started.

Reads and asks only: nothing is changed, in the database or on the bus.
"""

import sys
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

# oslo.messaging imports eventlet where it is installed, and it warns whoever typed the command.
warnings.filterwarnings("ignore", message=r"\s*Eventlet is deprecated")

import oslo_messaging  # noqa: E402
from oslo_config import cfg  # noqa: E402
from oslo_upgradecheck.upgradecheck import Code, Result, UpgradeCommands  # noqa: E402
from oslo_upgradecheck.upgradecheck import main as run_checks  # noqa: E402

from nova_vp import conf as options  # noqa: E402
from nova_vp import rpctransport, wire  # noqa: E402
from nova_vp.cli.exit_status import quietly  # noqa: E402
from nova_vp.conf import database  # noqa: E402
from nova_vp.db import schema  # noqa: E402
from nova_vp.db.bus_keys import BusKeyStore  # noqa: E402
from nova_vp.db.records import HostHead  # noqa: E402
from nova_vp.db.report_store import ERRORS, ReportStore  # noqa: E402
from nova_vp.signing.identity import Identity  # noqa: E402
from nova_vp.signing.keyring import ToldKeys  # noqa: E402
from nova_vp.signing.senders import Process  # noqa: E402

UNHEARD_FOR = timedelta(seconds=wire.EXPIRE_S)
NAMED = 5
MEND_BUS = (
    f"check that {Process.SCHEDULER}.conf, as `vp-manage credentials create` made it, lies beside "
    f"{options.PROJECT}.conf, that RabbitMQ runs there, and import rabbitmq.json of the same "
    "directory"
)
CANNOT_CHECK = 255
"""As oslo.upgradecheck says it: none of the checks' own results."""


class Checks(UpgradeCommands):
    def __init__(self, conf: cfg.ConfigOpts) -> None:
        super().__init__()
        self._conf = conf

    def _options(self) -> Result:
        try:
            options.check(self._conf)
        except (cfg.Error, ValueError) as exc:
            return Result(Code.FAILURE, str(exc))
        if not (self._conf.config_file or self._conf.config_dir):
            return Result(Code.WARNING, options.origin(self._conf))
        return Result(Code.SUCCESS)

    def _database(self) -> Result:
        """Also said: SQLite serves one machine."""
        try:
            engine = schema.open_engine(self._conf)
            found = schema.current_revision(engine)
        except (*ERRORS, ValueError) as exc:
            said = str(exc).partition("\n")[0]
            asked = database.shown(self._conf)
            return Result(Code.FAILURE, f"[database] connection = {asked}: no answer: {said}")
        except ModuleNotFoundError as exc:
            return Result(Code.FAILURE, schema.missing_driver(exc))
        if found != (newest := schema.newest_revision()):
            return Result(
                Code.FAILURE,
                f"the schema is at revision {found or 'none'}, this release needs {newest}: run "
                "`vp-manage db sync`; services of the former release may go on meanwhile",
            )
        if engine.dialect.name == "sqlite":
            return Result(
                Code.WARNING, "SQLite supports one machine and few hosts; see [database] connection"
            )
        return Result(Code.SUCCESS)

    def _message_bus(self) -> Result:
        try:
            rpctransport.reach(self._conf)
        except (cfg.Error, oslo_messaging.MessagingException) as exc:
            return Result(Code.FAILURE, f"[bus] transport_url: {exc}: {MEND_BUS}")
        return Result(Code.SUCCESS)

    def _keys(self) -> Result:
        """Ours, and those of the hosts that have reported: without, nobody believes them."""
        try:
            _ = Identity(self._conf, Process.SCHEDULER, ToldKeys).signer
            known = {sender.host for sender, _ in BusKeyStore(self._conf).in_use(Process.AGENT)}
            hosts = {head.host for head in ReportStore(self._conf).list_heads()}
        except cfg.Error as exc:
            return Result(Code.FAILURE, str(exc))
        except (*ERRORS, ValueError, ModuleNotFoundError):
            return Result(Code.WARNING, "unknown, because the database cannot be read")
        if not (without := sorted(hosts - known)):
            return Result(Code.SUCCESS, f"{len(known)} hosts have keys")
        return Result(
            Code.FAILURE,
            f"{len(without)} of {len(hosts)} hosts have no key and would not be believed: "
            f"{_some_of(without)}; "
            "`vp-manage credentials create --host NAME` makes them",
        )

    def _hosts(self) -> Result:
        """Those whose agents are silent; agents are upgraded after this."""
        try:
            heads = ReportStore(self._conf).list_heads()
        except (*ERRORS, ValueError, ModuleNotFoundError):
            return Result(Code.WARNING, "unknown, because the database cannot be read")
        late = sorted(head.host for head in heads if _is_late(head))
        if not late:
            return Result(Code.SUCCESS, f"{len(heads)} hosts report")
        return Result(
            Code.WARNING,
            f"{len(late)} of {len(heads)} hosts have not reported for {wire.EXPIRE_S} s: "
            f"{_some_of(late)}; "
            "start vp-agent there, or remove decommissioned hosts: `vp-manage host forget NAME`",
        )

    _upgrade_checks = (
        ("Options", _options),
        ("Database schema", _database),
        ("Message bus", _message_bus),
        ("Keys", _keys),
        ("Hosts", _hosts),
    )


def _some_of(hosts: Sequence[str]) -> str:
    return ", ".join(hosts[:NAMED]) + (" ..." if len(hosts) > NAMED else "")


def _is_late(head: HostHead) -> bool:
    return datetime.now(UTC) - head.received_at > UNHEARD_FOR


def _files() -> list[str]:
    """Those of vp-scheduler, whose account and key are tried, and one of our own."""
    found = [
        file
        for program in (Process.SCHEDULER, "vp-status")
        for file in cfg.find_config_files(options.PROJECT, program)
    ]
    return list(dict.fromkeys(found))


def main(argv: list[str] | None = None) -> int:
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    database.register_opts(conf)
    given = sys.argv[1:] if argv is None else argv
    try:
        return quietly(
            lambda: int(run_checks(conf, options.PROJECT, Checks(conf), given, _files()))
        )
    except (cfg.Error, UnicodeError) as exc:
        print(f"vp-status: configuration: {exc}", file=sys.stderr)
        return CANNOT_CHECK
