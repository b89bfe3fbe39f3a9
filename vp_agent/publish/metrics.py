# SPDX-License-Identifier: Apache-2.0
"""What Prometheus is told of this host: counted by the tick, or read from its last decision.

Series of a server carry `resource` (its UUID), all carry `fqdn` (nova-compute's host), as Watcher
looks for them. Which servers have any is the operator's choice. None carries `project`, by which
Aetos shows series to tenants: rates, hosts and neighbours are the operator's; whose a server is
stands in `project_id`. Import late: it brings prometheus_client.
"""

import enum
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from nova_vp import controllers
from nova_vp.core.types.action import Outcome, Result
from nova_vp.core.types.decision import Decision, VpView
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.overlay import Nack
from nova_vp.service.metric_labels import LabelledCollector
from vp_agent.publish import host_series, server_series, service_series
from vp_agent.publish.degraded_time import DegradedTime
from vp_agent.publish.host_info import HostInfo
from vp_agent.publish.usage_series import UsageCounters

TICK_BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
DONE, AWAY = "done", "libvirt-away"
_SETTLED = (Result.MENDED, Result.INEFFECTIVE, Result.UNJUDGED, Result.UNDONE)


class ServersShown(enum.Enum):
    """`[agent] metrics_servers`."""

    ALL = "all"
    DEGRADED = "degraded"
    NONE = "none"


@dataclass(frozen=True, slots=True)
class Sources:
    """Where a scrape looks. Each only hands out what is there: none blocks, or asks the host."""

    last: Callable[[], Decision | None]
    host_info: Callable[[], HostInfo]
    sent_at_s: Callable[[], float | None]
    """Of the decision that was published last, monotonic."""
    calls: Callable[[], Mapping[Nack | None, int]]
    """Answers to calls of overlays since the agent started, by why they were refused."""
    is_listening: Callable[[], bool]
    servers_shown: Callable[[], ServersShown]
    is_broker_reachable: Callable[[], bool | None]
    """This one may take a second, and remembers."""


class Tally:
    """Implements `vp_agent.loop.tick.Tally`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._ticks = Counter(
            "nova_vp_agent_ticks",
            "Ticks by whether libvirt answered",
            ["result"],
            registry=self.registry,
        )
        self._tick_s = Histogram(
            "nova_vp_agent_tick_seconds",
            "Time from the first read of a tick to its end",
            buckets=TICK_BUCKETS_S,
            registry=self.registry,
        )
        self._actions = Counter(
            "nova_vp_actions",
            "Actions by reason and result; an applied action is counted again when its effect is "
            "known",
            ["reason", "result"],
            registry=self.registry,
        )
        self._detections = Counter(
            "nova_vp_detections",
            "Detected degradations by kind",
            ["kind"],
            registry=self.registry,
        )
        self.usage = UsageCounters()
        self.degraded_time = DegradedTime()
        self._hurt: frozenset[tuple[str, Kind]] = frozenset()
        self._begin_at_zero()

    def _begin_at_zero(self) -> None:
        """What has not happened yet is 0: a rate needs a value from before."""
        for result in (DONE, AWAY):
            self._ticks.labels(result)
        for kind in Kind:
            self._detections.labels(kind.value)
        for code in controllers.reasons():
            for outcome in (Result.APPLIED, Result.FAILED):
                self._actions.labels(code, outcome.value)

    def ticked(self, span_s: float, *, is_done: bool) -> None:
        self._ticks.labels(DONE if is_done else AWAY).inc()
        if is_done:
            self._tick_s.observe(span_s)

    def decided(self, decision: Decision, outcomes: Iterable[Outcome]) -> None:
        self.applied((*outcomes, *_settled(decision)))
        self.usage.add(decision)
        self.degraded_time.add(decision)
        hurt = frozenset((one.victim_uuid, one.kind) for one in decision.detections)
        for _, kind in hurt - self._hurt:
            self._detections.labels(kind.value).inc()
        self._hurt = hurt

    def applied(self, outcomes: Iterable[Outcome]) -> None:
        for outcome in outcomes:
            self._actions.labels(outcome.action.reason.code, outcome.result.value).inc()


def _settled(decision: Decision) -> Iterator[Outcome]:
    """Of actions before this tick it is now known whether they helped; each is told of the guest
    that it is about, though it is in its victim's history too."""
    for view in decision.vps:
        for outcome in reversed(view.history):
            if decision.at_s not in (outcome.at_s, outcome.settled_s):
                break
            if outcome.result in _SETTLED and outcome.action.guest_uuid == view.guest.uuid:
                yield outcome


class HostCollector(Collector):
    """The gauges: made anew for every scrape from what the agent published last."""

    def __init__(self, sources: Sources, clock: Callable[[], float] = time.monotonic) -> None:
        self._sources = sources
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        decision, host_info = self._sources.last(), self._sources.host_info()
        yield host_series.about(host_info, metadata.version("nova-vp"))
        yield from host_series.of_bus(
            is_up=self._sources.is_broker_reachable(),
            is_listening=self._sources.is_listening(),
            report_age_s=self._age_s(self._sources.sent_at_s()),
        )
        yield host_series.problems(host_info)
        yield host_series.calls(self._sources.calls())
        if decision is not None:
            yield from host_series.of_host(decision, host_info)

    def _age_s(self, at_s: float | None) -> float | None:
        return None if at_s is None else max(0.0, self._clock() - at_s)


class ServerCollector(Collector):
    """The series of servers. What is billed is shown unless there shall be none."""

    def __init__(
        self, sources: Sources, tally: Tally, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sources = sources
        self._tally = tally
        self._clock = clock

    def collect(self) -> Iterable[Metric]:
        shown = self._sources.servers_shown()
        if shown is ServersShown.NONE:
            return
        yield from self._tally.usage.collect()
        decision = self._sources.last()
        if decision is None:
            return
        views = decision.vps
        if shown is ServersShown.DEGRADED:
            lately = self._tally.degraded_time.lately()
            views = tuple(view for view in views if view.guest.uuid in lately)
        yield from server_series.of_servers(views)
        yield self._degraded_time(views)
        known = self._sources.host_info().latency
        yield from service_series.of_classes(views, known, self._clock())

    def _degraded_time(self, views: Iterable[VpView]) -> Metric:
        family = CounterMetricFamily(
            "nova_vp_server_degraded_seconds",
            "Time in which neighbours degraded the server, since the agent started",
            labels=["resource"],
        )
        counted_s = self._tally.degraded_time.counted_s()
        for guest_uuid in dict.fromkeys([*(view.guest.uuid for view in views), *counted_s]):
            family.add_metric([guest_uuid], counted_s.get(guest_uuid, 0.0))
        return family


def registry_of(host: str, tally: Tally, sources: Sources) -> CollectorRegistry:
    """All that /metrics shows."""
    inner = tally.registry
    inner.register(HostCollector(sources))
    inner.register(ServerCollector(sources, tally))
    ProcessCollector(registry=inner)
    outer = CollectorRegistry()
    outer.register(LabelledCollector(inner, {"fqdn": host}))
    return outer
