# SPDX-License-Identifier: Apache-2.0
"""What /metrics and /health of a vp-scheduler say. Import late: it brings prometheus_client.

No series names a host or a server: agents tell of their own, and a cloud has ten thousand.
"""

import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from nova_vp.core.types.policy import Mode
from nova_vp.db.stats import HostKind, Stats
from nova_vp.escalation_status import FINAL, Status
from nova_vp.service.health import Check, Health, bus_check, database_check
from nova_vp.service.health import Status as HealthStatus
from nova_vp.service.metric_labels import LabelledCollector
from vp_scheduler.ingest.meters import Meters
from vp_scheduler.ingest.stats_poller import StatsPoller

REFUSALS = ("malformed", "unwelcome")
FULL_RATIO = 0.5


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a scrape looks. None blocks but the probe, which may take a second and remembers."""

    waiting: Callable[[], int]
    """Reports that are not stored yet."""
    most_waiting: int
    dropped: Callable[[], int]
    refused: Callable[[], Mapping[str, int]]
    listening: Callable[[], Mapping[str, bool]]
    """By topic."""
    escalation_mode: Callable[[], str]
    is_broker_reachable: Callable[[], bool | None]


def _gauge(name: str, text: str, labels: Iterable[str] = ()) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"nova_vp_{name}", text, labels=list(labels))


def _single(name: str, text: str, value: float) -> GaugeMetricFamily:
    family = _gauge(name, text)
    family.add_metric([], value)
    return family


class ServiceCollector(Collector):
    def __init__(
        self, sources: Sources, poller: StatsPoller, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sources = sources
        self._poller = poller
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        yield self._about()
        yield from self._bus()
        yield from self._reports()
        is_up = self._poller.is_database_well()
        yield _single("scheduler_database_up", "Whether the database answers", is_up)
        seen = self._poller.seen()
        if seen.survey is not None and seen.at_s is not None:
            yield _single(
                "scheduler_survey_age_seconds",
                "Age of what the database was last asked: the hosts and escalations below",
                self._clock() - seen.at_s,
            )
            yield from _of_cloud(seen.survey)

    def _about(self) -> Metric:
        family = InfoMetricFamily("nova_vp_scheduler", "What this vp-scheduler is and may do")
        mode = self._sources.escalation_mode()
        release = metadata.version("nova-vp")
        family.add_metric([], {"release": release, "escalation_mode": mode})
        return family

    def _bus(self) -> Iterator[Metric]:
        is_up = self._sources.is_broker_reachable()
        if is_up is not None:
            yield _single("scheduler_bus_up", "Whether a message broker takes connections", is_up)
        listening = _gauge("scheduler_bus_listening", "Whether messages can arrive", ["topic"])
        for topic, is_listening in self._sources.listening().items():
            listening.add_metric([topic], is_listening)
        yield listening

    def _reports(self) -> Iterator[Metric]:
        yield _single(
            "scheduler_reports_waiting",
            "Reports that were received and are not stored yet",
            self._sources.waiting(),
        )
        text = "Reports that were not stored, since newer ones of other hosts left no room"
        dropped = CounterMetricFamily("nova_vp_scheduler_reports_dropped", text)
        dropped.add_metric([], self._sources.dropped())
        yield dropped
        refused = CounterMetricFamily(
            "nova_vp_scheduler_reports_refused", "Reports that were not taken in", labels=["reason"]
        )
        counts = self._sources.refused()
        for reason in REFUSALS:
            refused.add_metric([reason], counts.get(reason, 0))
        yield refused


def _of_cloud(survey: Stats) -> Iterator[Metric]:
    hosts = _gauge("hosts", "Hosts whose agents are known", ["mode", "heard"])
    for mode in Mode:
        for is_heard in (True, False):
            found = survey.hosts.get(HostKind(mode.value, is_heard), 0)
            hosts.add_metric([mode.value, "yes" if is_heard else "no"], found)
    yield hosts
    standing = _gauge("escalations", "Escalations that are not settled", ["status"])
    settled = _gauge("escalations_settled_last_day", "Escalations settled within a day", ["status"])
    for status in Status:
        standing.add_metric([status.value], survey.standing.get(status.value, 0))
        if status in FINAL:
            settled.add_metric([status.value], survey.settled.get(status.value, 0))
    yield from (standing, settled)


def registry_of(meters: Meters, sources: Sources, poller: StatsPoller) -> CollectorRegistry:
    """All that /metrics shows."""
    inner = meters.registry
    inner.register(ServiceCollector(sources, poller))
    ProcessCollector(registry=inner)
    outer = CollectorRegistry()
    outer.register(LabelledCollector(inner, {}))
    return outer


def look(sources: Sources, poller: StatsPoller) -> Health:
    is_listening = all(sources.listening().values())
    return Health(
        socket.gethostname(),
        "nova-vp scheduler: stores what hosts report, and answers their escalations",
        (
            bus_check(sources.is_broker_reachable(), is_listening),
            database_check(poller.is_database_well()),
            _waiting(sources),
        ),
    )


def _waiting(sources: Sources) -> Check:
    waiting = sources.waiting()
    is_much = waiting > FULL_RATIO * sources.most_waiting
    told = "reports come faster than they are stored: see [database], or start another vp-scheduler"
    status = HealthStatus.WARN if is_much else HealthStatus.PASS
    return Check("reports", "waiting", status, told if is_much else "", waiting, "reports")
