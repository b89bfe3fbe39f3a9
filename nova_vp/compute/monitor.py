# SPDX-License-Identifier: Apache-2.0
"""What the agent measured, as Nova's own metrics: `numa.membw.current` and `numa.membw.max`, MB/s.

Runs inside an unmodified nova-compute, under a lock of its resource tracker: it reads a small file
and waits for nobody. Without numbers, or with old ones, there is no metric: Nova's weigher has
`[metrics] weight_of_unavailable` for that. `place_monitor.py` puts it where Nova finds it.
"""

import logging
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import nova.conf
from nova.compute.monitors import base
from nova.compute.monitors.cpu import virt_driver
from nova.objects.fields import MonitorMetricType
from nova.objects.monitor_metric import MonitorMetric, MonitorMetricList
from oslo_utils import timeutils

from nova_vp.compute.agent_supervisor import AgentSupervisor
from nova_vp.conf import compute
from nova_vp.service.run_dir import Load, NoLoad, read_load

LOG = logging.getLogger(__name__)
BYTES_PER_MB = 1_000_000


class Monitor(base.MonitorBase):  # type: ignore[misc]
    def __init__(self, resource_tracker: Any) -> None:
        """Nova constructs every monitor there is before it asks which are enabled: nothing may
        begin here, and nothing may fail."""
        super().__init__(resource_tracker)
        self.source = "nova-vp"
        self._tracker = resource_tracker
        self._begun: _Begun | None = None
        self._why_none = ""

    def get_metric_names(self) -> set[str]:
        ours = {MonitorMetricType.NUMA_MEM_BW_CURRENT, MonitorMetricType.NUMA_MEM_BW_MAX}
        more = self._begin().cpu_metrics
        return ours | more.get_metric_names() if more else ours

    def populate_metrics(self, metric_list: MonitorMetricList) -> None:
        begun = self._begin()
        metric_list.objects.extend(self._metrics(begun.run_folder))
        if begun.cpu_metrics:
            begun.cpu_metrics.populate_metrics(metric_list)

    def _begin(self) -> "_Begun":
        if self._begun is None:
            self._begun = _Begun(self._tracker)
        return self._begun

    def _metrics(self, run_folder: Path) -> list[MonitorMetric]:
        try:
            load = read_load(run_folder)
        except NoLoad as exc:
            if not self._why_none:
                LOG.warning("no memory bandwidth among this host's metrics: %s", exc)
            self._why_none = str(exc)
            return []
        if self._why_none:
            LOG.info("the memory bandwidth is among this host's metrics again")
        self._why_none = ""
        return [self._metric(name, load, nodes) for name, nodes in _per_node(load).items()]

    def _metric(self, name: str, load: Load, nodes: Mapping[int, int]) -> MonitorMetric:
        """Nova's weigher reads `value`, the sum; listeners to notifications get the nodes too."""
        return MonitorMetric(
            name=name,
            value=sum(nodes.values()),
            numa_membw_values={str(node): value for node, value in nodes.items()},
            timestamp=timeutils.utcnow() - timedelta(seconds=load.age_s),
            source=f"{self.source}/{load.source}",
        )


class _Begun:
    """What an enabled monitor has."""

    def __init__(self, tracker: Any) -> None:
        conf = nova.conf.CONF
        compute.register_opts(conf)
        settings = conf[compute.GROUP]
        self.run_folder = Path(settings.run_directory)
        self.cpu_metrics = virt_driver.Monitor(tracker) if settings.cpu_metrics else None
        if settings.supervise_agent:
            AgentSupervisor(settings.agent_command, self.run_folder).start()


def _per_node(load: Load) -> dict[str, dict[int, int]]:
    """MB/s per metric and node; a limit that nobody measured is no metric."""
    now = {one.node: round(one.bytes_per_s / BYTES_PER_MB) for one in load.nodes}
    limits = {
        one.node: round(one.limit_bytes_per_s / BYTES_PER_MB)
        for one in load.nodes
        if one.limit_bytes_per_s is not None
    }
    found = {MonitorMetricType.NUMA_MEM_BW_CURRENT: now}
    return found | ({MonitorMetricType.NUMA_MEM_BW_MAX: limits} if limits else {})
