# SPDX-License-Identifier: Apache-2.0
"""How many requests vp-api answers, how, and how fast, for Prometheus, on a port of its own.

By route as the table has it, never by path: a path names servers and hosts, and there are as many
as somebody likes to ask for. Import late: it brings prometheus_client.
"""

import os
import time
from collections.abc import Callable, Iterable
from typing import Any

import webob
import webob.dec
from oslo_config import cfg
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from nova_vp.service.health import Look
from nova_vp.service.metric_labels import LabelledCollector
from nova_vp.service.metrics_server import expose
from vp_api.dispatch import ROUTE_KEY

SEVERAL_PROCESSES = "PROMETHEUS_MULTIPROC_DIR"
"""Set by whoever runs several: prometheus_client then sums them up through files there."""
NO_ROUTE = "none"
"""Not let in, or to no route of ours."""
METHODS = frozenset({"GET", "HEAD", "PUT", "POST", "PATCH", "DELETE"})
BUCKETS_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Meters:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "nova_vp_api_requests",
            "Requests, by route and status",
            ["route", "method", "status"],
            registry=self.registry,
        )
        self._request_s = Histogram(
            "nova_vp_api_request_seconds",
            "Time from a request to its answer",
            ["route"],
            buckets=BUCKETS_S,
            registry=self.registry,
        )

    def answered(self, request: webob.Request, status: int, span_s: float) -> None:
        route = request.environ.get(ROUTE_KEY, NO_ROUTE)
        method = request.method if request.method in METHODS else "other"
        self._requests.labels(route, method, str(status)).inc()
        self._request_s.labels(route).observe(span_s)


class Metered:
    """The application, counted."""

    def __init__(self, application: Callable[..., Any], meters: Meters) -> None:
        self._application = application
        self._meters = meters

    @webob.dec.wsgify
    def __call__(self, request: webob.Request) -> webob.Response:
        begun_s = time.perf_counter()
        response = request.get_response(self._application)
        self._meters.answered(request, response.status_int, time.perf_counter() - begun_s)
        return response


class BusCollector(Collector):
    def __init__(self, is_bus_reachable: Callable[[], bool | None]) -> None:
        self._is_bus_reachable = is_bus_reachable

    def collect(self) -> Iterable[Metric]:
        is_up = self._is_bus_reachable()
        if is_up is not None:
            text = "Whether a message broker takes connections"
            yield GaugeMetricFamily("nova_vp_api_bus_up", text, value=is_up)


def registry_of(meters: Meters, is_bus_reachable: Callable[[], bool | None]) -> CollectorRegistry:
    """All that /metrics shows."""
    inner = CollectorRegistry()
    if os.environ.get(SEVERAL_PROCESSES):
        MultiProcessCollector(inner)  # type: ignore[no-untyped-call]
    else:
        inner = meters.registry
        ProcessCollector(registry=inner)
    inner.register(BusCollector(is_bus_reachable))
    outer = CollectorRegistry()
    outer.register(LabelledCollector(inner, {}))
    return outer


def metered(
    application: Callable[..., Any],
    conf: cfg.ConfigOpts,
    look: Look,
    is_bus_reachable: Callable[[], bool | None],
) -> Callable[..., Any]:
    """Of several processes with one port, one gets it, and tells of all of them."""
    meters = Meters()
    expose(
        conf.vp_api.metrics_address,
        conf.vp_api.metrics_port,
        registry_of(meters, is_bus_reachable),
        look,
        "[vp_api] metrics_address and metrics_port",
    )
    return Metered(application, meters)
