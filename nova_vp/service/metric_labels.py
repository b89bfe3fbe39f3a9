# SPDX-License-Identifier: Apache-2.0
"""Labels that every series of a process carries, whoever made the series.

When a counter was made, which prometheus_client adds to each, is left out: it would double them.
"""

from collections.abc import Iterable, Mapping

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry


class LabelledCollector(Collector):
    def __init__(self, inner: CollectorRegistry, labels: Mapping[str, str]) -> None:
        self._inner = inner
        self._labels = dict(labels)

    def collect(self) -> Iterable[Metric]:
        for metric in self._inner.collect():
            metric.samples = [
                sample._replace(labels=self._labels | sample.labels)
                for sample in metric.samples
                if not sample.name.endswith("_created")
            ]
            yield metric

    def describe(self) -> Iterable[Metric]:
        """Nothing: who registers us must not make a scrape of it."""
        return ()
