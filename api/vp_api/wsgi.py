# SPDX-License-Identifier: Apache-2.0
"""vp-api for WSGI servers, by module path: `vp_api.wsgi:application`.

Importing this module reads the configuration and fails loudly when it is wrong; database, bus and
keystone are connected by the first request that needs them, that is in each worker after a fork.
Nothing else imports it. OS_NOVA_VP_CONFIG_DIR names the folder of the files if it is not
/etc/nova-vp.
"""

import os
from pathlib import Path
from typing import Any

from oslo_config import cfg
from oslo_log import log as logging

from nova_vp import conf as options
from nova_vp.answers import open_asking_bus
from nova_vp.db.bus_keys import BusKeyStore, StoredKeys
from nova_vp.rpcapi import AgentAPI
from nova_vp.service.broker_probe import BrokerProbe, brokers
from nova_vp.signing.identity import Identity
from nova_vp.signing.senders import Process
from vp_api import deploy
from vp_api.reachable_agents import ReachableAgents
from vp_api.services import Stored

CONFIG_FILES = ("nova-vp.conf", "vp-api.conf")
FOLDER = "OS_NOVA_VP_CONFIG_DIR"

LOG = logging.getLogger(__name__)


def _config_files() -> list[str] | None:
    folder = os.environ.get(FOLDER)
    if not folder:
        return None
    return [str(path) for name in CONFIG_FILES if (path := Path(folder) / name).exists()]


def _build() -> Any:
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    logging.register_options(conf)
    conf([], project=options.PROJECT, prog="vp-api", default_config_files=_config_files())
    logging.setup(conf, "vp-api")
    looked = os.environ.get(FOLDER) or f"{options.LOOKED_IN}; {FOLDER} names another folder"
    LOG.info("starting; %s", options.origin(conf, looked))
    probe = BrokerProbe(brokers(conf))
    stored = Stored.open(conf)
    identity = Identity(conf, Process.API, lambda: StoredKeys(BusKeyStore(conf)))
    identity.check()
    agents = ReachableAgents(AgentAPI(open_asking_bus(identity)), probe.greet)

    def is_bus_reachable() -> bool | None:
        return not agents.is_refused and probe.is_reachable()

    application = deploy.loadapp(conf, stored, agents, is_bus_reachable=is_bus_reachable)
    if not conf.vp_api.metrics_port:
        return application
    from vp_api.metrics import metered  # Late: memory that others save.

    return metered(application, conf, application.look, is_bus_reachable)


application = _build()
