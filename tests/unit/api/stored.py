# SPDX-License-Identifier: Apache-2.0
"""The real database of API tests: SQLite, a copy of one that was made once, filled as tests say."""

import atexit
import json
import shutil
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import sqlalchemy
from oslo_config import cfg

from nova_vp import wire
from nova_vp.conf import database
from nova_vp.core.types.mode_levels import ModeLevel
from nova_vp.core.types.overlay import ArbitrationClass
from nova_vp.core.types.policy import Mode
from nova_vp.db import schema
from nova_vp.db.escalations import Ledger
from nova_vp.db.modes import ModeStore
from nova_vp.db.overlays import Limits, OverlayStore
from nova_vp.db.records import HostRecord
from nova_vp.db.report_store import NewReport, ReportStore
from nova_vp.db.usage import UsageStore
from nova_vp.escalation_status import Status
from tests.unit.api import cloud
from vp_api.services import Stored


def holding(records: Iterable[HostRecord] | None = None) -> Stored:
    """What these hosts reported; None: those of `cloud`, and an escalation of theirs."""
    conf = _copy(_cloud() if records is None else _empty())
    save(conf, records or ())
    return Stored.open(conf)


def filled_like_the_cloud(more: Iterable[HostRecord], alpha: str = cloud.ALPHA) -> Stored:
    """Those of `cloud`, and what these hosts reported. `alpha`: the project that has what there is
    of alpha's."""
    conf = _copy(_cloud())
    if alpha != cloud.ALPHA:
        _give(conf, alpha)
    save(conf, more)
    return Stored.open(conf)


def _give(conf: cfg.ConfigOpts, project_id: str) -> None:
    engine = schema.open_engine(conf)
    tables = sqlalchemy.MetaData()
    tables.reflect(engine)
    with engine.begin() as connection:
        for table in tables.sorted_tables:
            if (owner := table.columns.get("project_id")) is not None:
                given = table.update().where(owner == cloud.ALPHA).values(project_id=project_id)
                connection.execute(given)
    engine.dispose()


def save(conf: cfg.ConfigOpts, records: Iterable[HostRecord]) -> None:
    # One by one: of a host several may be meant to be stored.
    store = ReportStore(conf)
    for one in records:
        text = json.dumps(one.report)
        order = wire.MessageVersion(one.epoch, one.sequence)
        store.save_reports([NewReport(one.host, order, one.mode, one.received_at, text)])


@cache
def _folder() -> Path:
    # In memory where that can be: nobody here outlives a power cut.
    shared = Path("/dev/shm")
    folder = Path(tempfile.mkdtemp(prefix="vp-api-tests-", dir=shared if shared.exists() else None))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


@cache
def _empty() -> Path:
    path = _new_path()
    engine = schema.open_engine(_options(path))
    schema.upgrade(engine)
    engine.dispose()
    return path


@cache
def _cloud() -> Path:
    path = _new_path()
    shutil.copy(_empty(), path)
    conf = _options(path)
    save(conf, cloud.records())
    ledger = Ledger(conf)
    for one in cloud.escalations():
        ledger.add(one["id"], one["host"], json.dumps(one), cloud.NOW)
    usage = UsageStore(conf)
    for host, records in cloud.usage().items():
        usage.add(host, records)
    OverlayStore(conf).create(
        cloud.OVERLAY,
        cloud.ALPHA,
        "checkout",
        [cloud.VICTIM, cloud.SLEEPER],
        limits=Limits(9, 9),
        priority=1,
        arbitration=ArbitrationClass.PRIORITY,
        target=250.0,
        target_unit="requests/s",
        by="user-member",
        now=cloud.NOW,
    )
    ModeStore(conf).put(ModeLevel.CLOUD, "", Mode.ENFORCE, by="user-admin", at=cloud.NOW)
    ModeStore(conf).put(ModeLevel.AGGREGATE, "ssd", Mode.ENFORCE, by="user-admin", at=cloud.NOW)
    waiting = next(one for one in ledger.list_waiting(cloud.NOW) if one.id == cloud.ESCALATION)
    claimed = ledger.claim(waiting, "vp-scheduler-1")
    proposed = {"status": Status.PROPOSED, "owner": None, "changed_at": cloud.NOW}
    ledger.save(claimed, {**proposed, **cloud.choice()})
    return path


def _copy(path: Path) -> cfg.ConfigOpts:
    copied = _new_path()
    shutil.copy(path, copied)
    return _options(copied)


def _new_path() -> Path:
    return Path(tempfile.mkstemp(suffix=".sqlite", dir=_folder())[1])


def _options(path: Path) -> cfg.ConfigOpts:
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[], default_config_dirs=[])
    database.register_opts(conf)
    conf.set_override("connection", f"sqlite:///{path}", "database")
    return conf
