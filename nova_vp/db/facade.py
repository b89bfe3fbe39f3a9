# SPDX-License-Identifier: Apache-2.0
"""The way into the database for all who ask it anything; connects on first use."""

from typing import Any

from oslo_config import cfg
from oslo_db.sqlalchemy import enginefacade
from sqlalchemy import Engine

from nova_vp.conf import database
from nova_vp.db import deadline
from nova_vp.service.outage import Outage


@enginefacade.transaction_context_provider
class Context:
    """What oslo.db keeps the current transaction on."""


def open_facade(conf: cfg.ConfigOpts, outage: Outage | None = None) -> Any:
    """Of what `[database] connection` names: `.reader` and `.writer`. `outage`: one for all that a
    process opens; None: everybody may wait, up to the deadline."""
    database.register_opts(conf)
    answer_timeout_s = conf.database.answer_timeout_s

    def prepare(engine: Engine) -> None:
        deadline.set_deadline(engine, answer_timeout_s)
        if outage is not None:
            deadline.watch(engine, outage)

    facade = enginefacade.transaction_context()
    facade.configure(**database.engine_options(conf))
    facade.append_on_engine_create(prepare)
    return facade
