# SPDX-License-Identifier: Apache-2.0
"""What vp-api writes of an action: who accepted it. All else of it is from its agent's reports."""

from oslo_config import cfg
from sqlalchemy import update

from nova_vp.db.column_types import storable
from nova_vp.db.facade import Context, open_facade
from nova_vp.db.models import StoredAction
from nova_vp.db.retry import after_deadlock
from nova_vp.service.outage import Outage


class ActionStore:
    """The actions in `[database] connection`. Thread-safe; opens on first use."""

    def __init__(self, conf: cfg.ConfigOpts, outage: Outage | None = None) -> None:
        self._facade = open_facade(conf, outage)

    @after_deadlock
    def note_accepted(self, host: str, id: str, *, by: str) -> None:
        """`by`: id of the keystone user. An action that was purged meanwhile is left alone."""
        row = StoredAction
        noted = update(row).where(row.host == host, row.id == id).values(accepted_by=storable(by))
        with self._facade.writer.using(Context()) as session:
            session.execute(noted)
