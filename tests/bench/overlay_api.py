# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.bench.overlay_api CONFIGURATION PROJECT`: vp-api for the members of one project,
without keystone, until standard input ends. It prints its URL."""

import sys

from oslo_config import cfg

import vp_api  # noqa: F401  (first: it chooses threads before oslo.messaging is imported)
from nova_vp import conf as options
from nova_vp import rpcapi
from nova_vp.answers import open_asking_bus
from nova_vp.conf import database
from nova_vp.service.broker_probe import BrokerProbe, brokers
from nova_vp.signing.identity import Identity, trusted_keys
from nova_vp.signing.senders import Process
from tests.loopback import served
from tests.unit.api.client import Persona, as_persona
from vp_api import deploy
from vp_api.reachable_agents import ReachableAgents
from vp_api.services import Stored


def main(file: str, project_id: str) -> None:
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    database.register_opts(conf)
    conf(["--config-file", file], default_config_files=[])
    identity = Identity(conf, Process.API, lambda: trusted_keys(conf), "ctl1")
    bus = open_asking_bus(identity)
    application = deploy.loadapp(
        conf,
        Stored.open(conf),
        ReachableAgents(rpcapi.AgentAPI(bus), BrokerProbe(brokers(conf)).greet),
        authenticate=as_persona(Persona("member", project_id)),
    )
    with served(application) as url:
        print(url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(*sys.argv[1:])
