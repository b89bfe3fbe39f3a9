# SPDX-License-Identifier: Apache-2.0
"""What a decision says of its host, as series of Prometheus; pure. Names end in their unit, but for
counts of things and for 0 and 1.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, InfoMetricFamily
from prometheus_client.metrics_core import Metric

from nova_vp.core.types.decision import Decision
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.mode_levels import ModeLevel
from nova_vp.core.types.overlay import Nack
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.reason import Rejection
from nova_vp.core.types.sample import Incomplete
from nova_vp.interference import is_degraded
from vp_agent.publish.host_info import HostInfo

UNKNOWN = "unknown"
STATES = (*map(str, range(9)), UNKNOWN)

OVER_BUDGET = (Rejection.VICTIM_BUDGET, Rejection.PROJECT_BUDGET, Rejection.NO_GAIN)


def gauge(name: str, text: str, labels: Iterable[str] = ()) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"nova_vp_{name}", text, labels=list(labels))


def _single(name: str, text: str, value: float) -> GaugeMetricFamily:
    family = gauge(name, text)
    family.add_metric([], value)
    return family


def _by(name: str, text: str, label: str, values: dict[str, float]) -> GaugeMetricFamily:
    family = gauge(name, text, [label])
    for told, value in values.items():
        family.add_metric([told], value)
    return family


def calls(answers: Mapping[Nack | None, int]) -> Metric:
    """From zero on, for every way to be refused."""
    family = CounterMetricFamily(
        "nova_vp_overlay_calls", "Calls of overlays by their answer", labels=["answer"]
    )
    for nack in (None, *Nack):
        family.add_metric([nack.value if nack else "granted"], answers.get(nack, 0))
    return family


def about(host_info: HostInfo, release: str) -> Metric:
    family = InfoMetricFamily("nova_vp_agent", "Release, counter source and actuator of the agent")
    told = {"release": release, "counters": host_info.counters, "actuator": host_info.actuator}
    family.add_metric([], told)
    return family


def problems(host_info: HostInfo) -> Metric:
    text = "Number of counter problems: servers, or the host if no source works"
    return _single("counter_problems", text, len(host_info.problems))


def of_bus(
    *, is_up: bool | None, is_listening: bool, report_age_s: float | None
) -> Iterator[Metric]:
    if is_up is not None:
        yield _single("agent_bus_up", "Whether a message broker accepts connections", is_up)
    yield _single("agent_bus_listening", "Whether commands to this host can arrive", is_listening)
    if report_age_s is not None:
        text = "Age of the last report to the cloud"
        yield _single("agent_report_age_seconds", text, report_age_s)


def of_host(decision: Decision, host_info: HostInfo) -> Iterator[Metric]:
    yield _single(
        "agent_last_tick_timestamp_seconds",
        "Start of the last tick that could read the host, in seconds since 1970",
        decision.at_s + host_info.epoch_offset_s,
    )
    yield from _modes(decision, host_info.modes.source.level)
    if decision.steal_ratio is not None:
        text = "Share of the host's CPU time that its own host took, if it is a virtual machine"
        yield _single("host_cpu_steal_ratio", text, decision.steal_ratio)
    yield from _counts_of_servers(decision)
    yield from _places(decision)
    yield _single(
        "proposals", "Proposed actions that wait for an operator", len(decision.proposals)
    )
    yield _single(
        "escalations_standing",
        "Degraded servers that no action on this host helps",
        len(decision.escalations),
    )
    yield _single(
        "memory_moves_running",
        "Servers whose memory is moving to another NUMA node",
        sum(not move.is_over for move in decision.memory_moves),
    )


def _modes(decision: Decision, source: ModeLevel) -> Iterator[Metric]:
    family = gauge(
        "agent_mode",
        "1 for the current mode, with the level that it is set on; 0 for the other modes",
        ["mode", "source"],
    )
    for mode in Mode:
        is_current = decision.mode is mode
        family.add_metric([mode.value, source.value if is_current else ""], is_current)
    yield family
    own = Counter(view.guest.mode for view in decision.vps)
    yield _by(
        "servers_with_own_mode",
        "Servers for which a mode of their own holds instead of the host's",
        "mode",
        {mode.value: own[mode] for mode in Mode},
    )


def _counts_of_servers(decision: Decision) -> Iterator[Metric]:
    views = decision.vps
    states = Counter(UNKNOWN if v.state is None else str(v.state.number) for v in views)
    yield _by(
        "servers",
        "Servers on this host by interference state",
        "state",
        {state: states[state] for state in STATES},
    )
    hurt = Counter(one.kind for one in decision.detections)
    yield _by(
        "servers_hurt",
        "Degraded servers by kind; kind host-cpu: the host itself uses their CPUs",
        "kind",
        {kind.value: hurt[kind] for kind in Kind},
    )
    over_budget = Counter(decision.over_budget.values())
    yield _by(
        "victims_over_budget",
        "Degraded servers for which no other server may be changed now, by reason",
        "reason",
        {why.value: over_budget[why] for why in OVER_BUDGET},
    )
    incomplete = Counter(view.incomplete for view in views)
    yield _by(
        "servers_incomplete",
        "Servers without a usable sample in the last tick by reason",
        "reason",
        {why.value: incomplete[why] for why in Incomplete},
    )
    unmanaged = Counter(view.guest.unmanaged for view in views)
    yield _by(
        "servers_unmanaged",
        "Unmanaged servers by reason",
        "reason",
        {why.value: unmanaged[why] for why in Unmanaged},
    )
    suspects = {one.guest_uuid for found in decision.detections for one in found.suspects}
    left = Counter(view.guest.unmanaged for view in views if view.guest.uuid in suspects)
    yield _by(
        "aggressors_unmanaged",
        "Unmanaged servers that degrade others, by reason",
        "reason",
        {why.value: left[why] for why in Unmanaged},
    )


def _places(decision: Decision) -> Iterator[Metric]:
    where = ["domain", "node"]
    free = gauge("llc_domain_free_cores", "Free CPU of an LLC domain, in cores", where)
    misses = gauge(
        "llc_domain_llc_misses_per_second", "LLC misses of all servers in an LLC domain", where
    )
    hurt = gauge("llc_domain_servers_hurt", "Servers that neighbours degrade there", where)
    degraded = Counter(
        one.domain_id for one in decision.detections if is_degraded(None, one.kind.value)
    )
    for domain in decision.domains:
        labels = [str(domain.domain.id), str(domain.domain.node)]
        free.add_metric(labels, domain.free_cores)
        misses.add_metric(labels, domain.pressure_per_s)
        hurt.add_metric(labels, degraded[domain.domain.id])
    yield from (free, misses, hurt)
    served = gauge("node_llc_misses_per_second", "LLC misses served by a NUMA node", ["node"])
    limit = gauge("node_limit_llc_misses_per_second", "Calibrated limit of a NUMA node", ["node"])
    hot = gauge("node_hot", "Whether the memory controller of a NUMA node is overloaded", ["node"])
    for node in decision.nodes:
        served.add_metric([str(node.node)], node.misses_per_s)
        hot.add_metric([str(node.node)], node.is_hot)
        if node.limit_misses_per_s is not None:
            limit.add_metric([str(node.node)], node.limit_misses_per_s)
    yield from (served, limit, hot)
