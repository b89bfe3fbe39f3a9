# SPDX-License-Identifier: Apache-2.0
"""The agent's `/metrics` and `/health`, wired. Import late: it brings prometheus_client, which an
agent that serves neither does without.
"""

import logging
import time
from collections.abc import Callable

import oslo_messaging
from oslo_config import cfg

from nova_vp.service.broker_probe import BrokerProbe, brokers
from nova_vp.service.metrics_server import MetricsServer, expose
from vp_agent.publish.health import AgentHealth
from vp_agent.publish.metrics import ServersShown, Sources, Tally, registry_of
from vp_agent.wiring import Built, host_name

LOG = logging.getLogger(__name__)


def serve(
    conf: cfg.ConfigOpts, built: Built, tally: Tally, is_listening: Callable[[], bool]
) -> MetricsServer | None:
    """None where the port is not to be had; the log says why."""
    host, probe = host_name(conf), _probe(conf)
    sources = Sources(
        last=built.control.last,
        host_info=built.host_info,
        calls=built.control.calls.totals,
        sent_at_s=lambda: built.publisher.sent_at_s,
        is_listening=is_listening,
        servers_shown=lambda: ServersShown(conf.agent.metrics_servers),
        is_broker_reachable=lambda: not built.identity.sends.is_hanging and probe.is_reachable(),
    )
    wellness = AgentHealth(
        host=host,
        state_directory=conf.agent.state_directory,
        sources=sources,
        interval_s=lambda: built.agent.interval_s,
        started_at_s=time.monotonic(),
    )
    return expose(
        conf.agent.metrics_address,
        conf.agent.metrics_port,
        registry_of(host, tally, sources),
        wellness.look,
        "[agent] metrics_address and metrics_port",
    )


def _probe(conf: cfg.ConfigOpts) -> BrokerProbe:
    try:
        return BrokerProbe(brokers(conf))
    except oslo_messaging.InvalidTransportURL as exc:
        raise cfg.Error(f"[bus] transport_url: {exc}") from exc
