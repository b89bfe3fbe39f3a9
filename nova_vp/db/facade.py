# SPDX-License-Identifier: Apache-2.0
"""The way into the database for all who ask it anything; connects on first use."""

from typing import Any

from oslo_config import cfg
from oslo_db.sqlalchemy import enginefacade

from nova_vp.conf import database


@enginefacade.transaction_context_provider
class Context:
    """What oslo.db keeps the current transaction on."""


def open_facade(conf: cfg.ConfigOpts) -> Any:
    """Of what `[database] connection` names: `.reader` and `.writer`."""
    database.register_opts(conf)
    facade = enginefacade.transaction_context()
    facade.configure(**database.engine_options(conf))
    return facade
