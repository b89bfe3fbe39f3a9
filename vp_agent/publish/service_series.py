# SPDX-License-Identifier: Apache-2.0
"""How latency-critical servers answer, and what controllers tell of servers with a class, as series
of Prometheus; pure.

What an application reports is shown while it is known, with its age: who looks at it decides how
old it may be.
"""

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily
from prometheus_client.metrics_core import Metric

from nova_vp.core.types.decision import VpView
from vp_agent.loop.latency_reports import Came, KnownReports, Reported
from vp_agent.publish.host_series import gauge

USED = "used"


def of_classes(servers: Iterable[VpView], known: KnownReports, now_s: float) -> Iterator[Metric]:
    """`now_s`: by the clock of the ticks."""
    views = [view for view in servers if view.guest.service_class is not None]
    critical = [view for view in views if view.guest.is_latency_critical]
    yield from _of_latency(critical, known.last, now_s)
    yield _of_reports(views, known.by_server)
    yield from _of_figures(views)


def _of_latency(
    views: list[VpView], last: Mapping[str, Reported], now_s: float
) -> Iterator[Metric]:
    at = ["resource", "percentile"]
    target = gauge("server_latency_target_seconds", "Latency target of a server", at)
    latency = gauge("server_latency_seconds", "Latency as it was reported last", at)
    load = gauge(
        "server_load", "Load as it was reported last, in the unit of vp:max_load", ["resource"]
    )
    age = gauge(
        "server_latency_report_age_seconds", "Age of the last report of latency", ["resource"]
    )
    for view in views:
        guest, reported = view.guest, last.get(view.guest.uuid)
        labels = [guest.uuid, f"{guest.latency_percentile:g}"]
        if guest.latency_target_ms is not None:
            target.add_metric(labels, guest.latency_target_ms / 1000)
        if reported is not None:
            latency.add_metric(labels, reported.latency_ms / 1000)
            age.add_metric([guest.uuid], max(0.0, now_s - reported.measured_s))
        if reported is not None and reported.load is not None:
            load.add_metric([guest.uuid], reported.load)
    yield from (target, latency, load, age)


def _of_reports(views: list[VpView], came: Mapping[str, Came]) -> Metric:
    family = CounterMetricFamily(
        "nova_vp_server_latency_reports",
        "Reports of latency that reached the host, by whether they were used, or why not",
        labels=["resource", "project_id", "result"],
    )
    for view in views:
        of_server = came.get(view.guest.uuid)
        if of_server is not None:
            for result, count in {USED: of_server.used, **of_server.ignored}.items():
                family.add_metric([view.guest.uuid, view.guest.project_id, result], count)
    return family


def _of_figures(views: list[VpView]) -> Iterator[Metric]:
    labels = ["resource", "controller", "figure"]
    number = gauge("server_figure", "What a controller tells of a server with a class", labels)
    word = gauge("server_figure_word", "1 for the word that it tells", [*labels, "word"])
    for view in views:
        for controller, figures in view.figures.items():
            for name, value in figures.items():
                told = [view.guest.uuid, controller, name]
                if isinstance(value, str):
                    word.add_metric([*told, value], 1)
                else:
                    number.add_metric(told, value)
    yield from (number, word)
