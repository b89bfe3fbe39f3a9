# SPDX-License-Identifier: Apache-2.0
"""What a decision says of servers, as series of Prometheus; pure.

A server that could not be measured has no rates: a gap, not a zero.
"""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client.core import InfoMetricFamily
from prometheus_client.metrics_core import Metric

from nova_vp.core.types.cpu_time import CpuUse
from nova_vp.core.types.decision import VpView
from nova_vp.core.types.sample import Sample
from nova_vp.interference import is_degraded
from vp_agent.publish.host_series import gauge

RATES: dict[str, tuple[str, Callable[[Sample], float]]] = {
    "cycles_per_instruction": ("Cycles per instruction (CPI)", lambda s: s.cpi),
    "llc_misses_per_kilo_instructions": (
        "Last-level cache misses per 1000 instructions (MPKI)",
        lambda s: s.mpki,
    ),
    "l2_misses_per_kilo_instructions": (
        "Level 2 misses, that is last-level cache references, per 1000 instructions",
        lambda s: s.l2_mpki,
    ),
    "memory_factor_ratio": (
        "Last-level cache misses over level 2 misses (MF)",
        lambda s: s.memory_factor,
    ),
    "llc_misses_per_second": ("Last-level cache misses per second", lambda s: s.misses_per_s),
    "instructions_per_second": ("Instructions per second", lambda s: s.instructions_per_s),
    "remote_misses_ratio": (
        "Share of last-level cache misses that another NUMA node served",
        lambda s: s.remote_ratio,
    ),
    "cpu_cores": ("CPU use, in cores", lambda s: s.cpu_cores),
    "counters_running_ratio": (
        "Share of the time in which the counters ran; below 1 they are multiplexed",
        lambda s: s.running_ratio,
    ),
}

CPU_USES: dict[str, tuple[str, Callable[[CpuUse], float]]] = {
    "cpu_waiting_ratio": (
        "Share of the CPU time wanted in which its vCPUs waited for a CPU, throttling apart",
        lambda use: use.waiting_ratio,
    ),
    "cpu_throttled_ours_ratio": (
        "Share of the CPU time wanted that a CPU cap of nova-vp denied",
        lambda use: use.throttled_ratio_ours,
    ),
    "cpu_throttled_nova_ratio": (
        "Share of the CPU time wanted that the quota of its flavor, or another, denied",
        lambda use: use.throttled_ratio_nova,
    ),
}


def of_servers(views: Iterable[VpView]) -> Iterator[Metric]:
    about = InfoMetricFamily("nova_vp_server", "Name, project and flavor of the server")
    state = gauge("server_state", "Interference state, 0 to 8", ["resource"])
    hurt = gauge("server_hurt", "Whether a neighbour degrades the server", ["resource"])
    managed = gauge("server_managed", "Whether the agent manages the server", ["resource"])
    rates = {
        name: gauge(f"server_{name}", text, ["resource"])
        for name, (text, _) in [*RATES.items(), *CPU_USES.items()]
    }
    for view in views:
        guest, resource = view.guest, [view.guest.uuid]
        told = {"name": guest.name, "project_id": guest.project_id, "flavor": guest.flavor}
        about.add_metric([], {"resource": guest.uuid} | told)
        kind = view.detection.kind.value if view.detection else None
        hurt.add_metric(resource, is_degraded(view.state and view.state.number, kind) is True)
        managed.add_metric(resource, guest.unmanaged is None)
        if view.state is not None:
            state.add_metric(resource, view.state.number)
        if view.sample is not None:
            for name, (_, rate_of) in RATES.items():
                rates[name].add_metric(resource, rate_of(view.sample))
        if view.cpu_use is not None:
            for name, (_, ratio_of) in CPU_USES.items():
                rates[name].add_metric(resource, ratio_of(view.cpu_use))
    yield from (about, state, hurt, managed, *rates.values())
