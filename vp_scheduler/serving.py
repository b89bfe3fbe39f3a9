# SPDX-License-Identifier: Apache-2.0
"""A vp-scheduler's `/metrics` and `/health`, wired. Import late: it brings prometheus_client, which
a service that serves neither does without.
"""

from dataclasses import dataclass

from nova_vp import wire
from nova_vp.db.stats import StatsReader
from nova_vp.service.broker_probe import BrokerProbe, brokers
from nova_vp.service.metrics_server import MetricsServer, expose
from nova_vp.signing.identity import Identity
from vp_scheduler import metrics
from vp_scheduler.answering import Answering
from vp_scheduler.ingest.meters import Meters
from vp_scheduler.ingest.report_queue import MAX_HOSTS
from vp_scheduler.ingest.service import Service
from vp_scheduler.ingest.stats_poller import StatsPoller


@dataclass(frozen=True, slots=True)
class Serving:
    poller: StatsPoller
    exposition: MetricsServer | None

    def close(self) -> None:
        if self.exposition:
            self.exposition.close()
        self.poller.close()


def serve(
    identity: Identity,
    service: Service,
    answering: Answering,
    meters: Meters,
) -> Serving:
    """Without a port that can be had it goes on without; the log says why."""
    conf, probe = identity.conf, BrokerProbe(brokers(identity.conf))
    poller = StatsPoller(StatsReader(conf))
    sources = metrics.Sources(
        waiting=lambda: len(service.reports),
        most_waiting=MAX_HOSTS,
        dropped=lambda: service.reports.dropped,
        refused=lambda: dict(service.endpoint.refusals.counts),
        listening=lambda: {
            wire.REPORT_TOPIC: service.is_listening,
            wire.ESCALATION_TOPIC: answering.escalations.is_listening,
            wire.USAGE_TOPIC: answering.usage.is_listening,
            wire.OVERLAY_CALL: answering.overlay_calls.is_listening,
        },
        escalation_mode=lambda: answering.escalations.mode.value,
        is_broker_reachable=lambda: not identity.sends.is_hanging and probe.is_reachable(),
    )
    poller.start()
    exposition = expose(
        conf.vp_scheduler.metrics_address,
        conf.vp_scheduler.metrics_port,
        metrics.registry_of(meters, sources, poller),
        lambda: metrics.look(sources, poller),
        "[vp_scheduler] metrics_address and metrics_port",
    )
    return Serving(poller, exposition)
