# SPDX-License-Identifier: Apache-2.0
"""Hosts of 50 CPUs on which only `latency` acts: one level of the source's loops is one CPU."""

from nova_vp.core.controllers.latency.cpi_models import CpiModel
from nova_vp.core.controllers.latency.declaration import LatencySettings, Watch
from nova_vp.core.controllers.latency.seen import Seen
from nova_vp.core.controllers.latency.source_loops import SOURCE_LOOPS, begun
from nova_vp.core.types.cpu_time import CpuTimes
from nova_vp.core.types.knob import CpuWeight, Knob, WeightUnit
from nova_vp.core.types.sample import Sample
from nova_vp.core.types.service_level import LatencyReport, ServiceClass
from tests.policies import a_policy
from tests.unit.core.build import Host, Rates, two_sockets, uuid_of

TARGET_MS, MAX_LOAD = 10.0, 1000.0
SERVING = Rates(mips=4000, cpi=1.0, cores=4.0)
WORKING = Rates(mips=8000, cpi=1.0, cores=8.0)
IDLE = Rates(mips=100, cpi=1.0, cores=0.1)
KNOBS = frozenset({Knob.PLACEMENT, Knob.CPU_CAP, Knob.CPU_WEIGHT})
SHARES = CpuWeight(1024, WeightUnit.SHARES)
SETTINGS = LatencySettings()


def a_host(loop: str = "adaptive", knobs: frozenset[Knob] = KNOBS, **settings: object) -> Host:
    policy = a_policy(controllers=("latency",), control_loop=loop, **settings)
    return Host(two_sockets(cpus=25), policy, knobs=knobs)


def critical(host: Host, name: str = "lc", **fields: object) -> str:
    """On the first socket."""
    told = {
        "service_class": ServiceClass.LATENCY_CRITICAL,
        "latency_target_ms": TARGET_MS,
        "max_load": MAX_LOAD,
        "cpu_weight": SHARES,
        "vcpus": 16,
        "cpus": set(range(25)),
        "project_id": "shop",
    }
    return host.add(name, SERVING, **{**told, **fields})


def best_effort(host: Host, name: str = "be", **fields: object) -> str:
    told = {
        "service_class": ServiceClass.BEST_EFFORT,
        "cap_floor_ratio": 0.01,
        "cpu_weight": SHARES,
        "vcpus": 8,
        "cpus": set(range(25)),
        "project_id": "batch",
    }
    return host.add(name, WORKING, **{**told, **fields})


def report(host: Host, latency_ms: float, load_ratio: float | None = 0.5, name: str = "lc") -> None:
    load = None if load_ratio is None else load_ratio * MAX_LOAD
    host.latency_reports[uuid_of(name)] = LatencyReport(latency_ms, load, 0.0)


def run(host: Host, seconds: int, latency_ms: float, load_ratio: float | None = 0.5) -> None:
    for _ in range(seconds):
        report(host, latency_ms, load_ratio)
        host.tick()


def silent(host: Host, seconds: int, name: str = "lc") -> None:
    """The last report gets older."""
    for _ in range(seconds):
        last = host.latency_reports[uuid_of(name)]
        host.latency_reports[uuid_of(name)] = last._replace(age_s=last.age_s + 1.0)
        host.tick()


def given_cores(host: Host, name: str = "be") -> float:
    """What its cap leaves all of its vCPUs."""
    guest = host.guest(name)
    return guest.vcpus * guest.quota.cores


def figures(host: Host, name: str = "lc"):
    """What the last decision tells of it."""
    [told] = [one for one in host.decide().vps if one.guest.uuid == uuid_of(name)]
    return told.figures["latency"]


def a_sample(cpi: float = 1.0, cores: float = 4.0) -> Sample:
    return Sample(0.0, 1.0, 1e9, cpi, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, cores, cores / 16, 1.0)


def a_seen(now_s: float, latency_ms: float = 5.0, load_ratio: float | None = 0.5, **fields) -> Seen:
    told = {
        "machine_cpus": 50,
        "most_cores": 8.0,
        "cpi_model": CpiModel(1.2, 16.0),
        "busy_ratio": 0.25,
        "sample": a_sample(),
        "best_effort_cores": 0.0,
        "report": LatencyReport(latency_ms, load_ratio, 0.0),
        "target_ms": TARGET_MS,
    }
    told |= fields
    told.setdefault("own_cores", told["sample"].cpu_cores if told["sample"] else None)
    return Seen(now_s=now_s, load_ratio=load_ratio, **told)


def watched(loop, seconds: int, watch: Watch | None = None, from_s: int = 0, **seen) -> Watch:
    """After so many seconds of a loop that sees the same all the time."""
    watch = a_watch(loop) if watch is None else watch
    step = SOURCE_LOOPS[loop]
    for second in range(from_s + 1, from_s + seconds + 1):
        watch = step(watch, a_seen(float(second), **seen))
    return watch


def a_watch(loop) -> Watch:
    return begun(Watch("1", begun_at_s=0.0), loop, 0.0)


def without_counters(host: Host) -> None:
    """As a rule of a host. The kernel says what vCPUs use, and what their caps deny them."""
    for uuid, guest in host.guests.items():
        host.counts[uuid] = host.counts[uuid]._replace(running_ratio=0.0)
        before = guest.cpu_times or CpuTimes(0, 0, 0, "1")
        denied_cores = max(host.rates[uuid].cores - guest.vcpus * guest.quota.cores, 0.0)
        denied_ns = before.throttled_ns + round(denied_cores * 1e9)
        host.change(guest.name, cpu_times=CpuTimes(guest.cpu_time_ns, denied_ns, denied_ns, "1"))
