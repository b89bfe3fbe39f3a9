# SPDX-License-Identifier: Apache-2.0
"""`vp-scheduler`: reads the configuration, runs the service until told to stop."""

import signal
import sys
import threading
from typing import TYPE_CHECKING

from oslo_config import cfg
from oslo_log import log
from oslo_service import backend

# Before anything imports oslo.service's default, which is eventlet: oslo.messaging does.
backend.init_backend(backend.BackendType.THREADING)

from nova_vp import conf as options  # noqa: E402
from nova_vp.db.bus_keys import BusKeyStore, StoredKeys  # noqa: E402
from nova_vp.db.report_store import ReportStore  # noqa: E402
from nova_vp.service import lifecycle  # noqa: E402
from nova_vp.service.lifecycle import Reloader  # noqa: E402
from nova_vp.signing.identity import Identity  # noqa: E402
from nova_vp.signing.senders import Process  # noqa: E402
from vp_scheduler.answering import Answering  # noqa: E402
from vp_scheduler.escalation.service import EscalationService  # noqa: E402
from vp_scheduler.ingest.nova_facts import FactsSync, open_facts  # noqa: E402
from vp_scheduler.ingest.service import Service  # noqa: E402
from vp_scheduler.ingest.trait_sync import TraitSync, open_traits  # noqa: E402
from vp_scheduler.ingest.usage import UsageService  # noqa: E402
from vp_scheduler.relay.service import OverlayCallService  # noqa: E402

if TYPE_CHECKING:
    from vp_scheduler.serving import Serving

LOG = log.getLogger(__name__)


def main(argv: list[str] | None = None) -> int:
    conf = cfg.CONF  # oslo.messaging registers some of its options on this one only.
    options.register_all(conf)
    log.register_options(conf)
    stop = threading.Event()
    calls = {
        signal.SIGTERM: stop.set,
        signal.SIGINT: stop.set,
        signal.SIGHUP: lambda: None,  # What the files say has only just been read.
    }
    try:
        options.read(conf, sys.argv[1:] if argv is None else argv, "vp-scheduler")
        options.check(conf)
        lifecycle.listen(calls)
        identity = Identity(conf, Process.SCHEDULER, lambda: StoredKeys(BusKeyStore(conf)))
        answering = Answering(
            EscalationService(identity), UsageService(identity), OverlayCallService(identity)
        )
        store = ReportStore(conf, keeps_history=conf.vp_scheduler.history_days > 0)
        traits = open_traits(conf, store)
        facts = open_facts(identity)
        identity.check()
    except cfg.Error as exc:
        print(f"vp-scheduler: configuration: {exc}", file=sys.stderr)
        return 1
    log.setup(conf, "nova-vp")
    service, serving = _build(identity, store, answering, facts)

    def take() -> None:
        answering.escalations.apply_config(conf)
        for one in (service, answering.usage, answering.overlay_calls):
            one.endpoint.known_hosts.apply_config(conf.vp_scheduler.known_hosts)

    calls[signal.SIGHUP] = Reloader(conf, take).reload
    _start(service, answering, traits)
    LOG.info("running; %s", options.origin(conf))
    stop.wait()
    is_all_stored = _stop(service, answering, traits)
    if serving:
        serving.close()
    if is_all_stored:
        LOG.info("stopped: what was taken in is stored")
    else:
        LOG.warning("stopped, but some reports are not stored: their hosts repeat them by and by")
    return 0


def _build(
    identity: Identity,
    store: ReportStore,
    answering: Answering,
    facts: FactsSync | None,
) -> "tuple[Service, Serving | None]":
    conf = identity.conf
    if not conf.vp_scheduler.metrics_port:
        return Service(identity, store, facts=facts), None
    from vp_scheduler import serving
    from vp_scheduler.ingest import meters

    counted = meters.Meters()
    service = Service(identity, meters.MeteredStore(store, counted), counted.heard, facts)
    return service, serving.serve(identity, service, answering, counted)


def _start(service: Service, answering: Answering, traits: TraitSync | None) -> None:
    for part in (service, *answering):
        part.start()
    if traits:
        traits.start()
    else:
        LOG.info("Placement is told no traits: [cloud] is not set, or traits_interval_s is 0")


def _stop(service: Service, answering: Answering, traits: TraitSync | None) -> bool:
    """Whether all reports that were taken in are stored."""
    if traits:
        traits.close()
    for part in answering:
        part.stop()
    return service.stop()
