# SPDX-License-Identifier: Apache-2.0
"""What our filter and weigher cost nova-scheduler per host, beside what users would take instead.

Nova's own handlers judge a `strict` server; half the hosts are forbidden to it. In every round all
hosts have sent new digests, since that is when nothing is remembered. CPU time of this thread
alone is counted, and the median of the rounds is told: others use this machine too. A best-effort
server, which no host is forbidden to, is judged on the same digests afterwards.
"""

import argparse
import logging
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # Nova warns about itself.
    from oslo_service import backend

    backend.init_backend(backend.BackendType.THREADING)
    from nova import objects
    from nova.objects import numa as numa_objects
    from nova.scheduler.filters import HostFilterHandler
    from nova.scheduler.filters.numa_topology_filter import NUMATopologyFilter
    from nova.scheduler.host_manager import HostState
    from nova.scheduler.weights import HostWeightHandler
    from nova.scheduler.weights.ram import RAMWeigher

    objects.register_all()

from nova_vp import wire
from nova_vp.signing.envelope import Sealed, Signer, Verifier
from nova_vp.signing.keyring import ToldKeys, new_private_key
from nova_vp.signing.senders import Process, Sender
from tests.bench.harness import Benchmark, Budget, Numbers, progress, run, scaled
from vp_scheduler.filters import VPIsolationFilter
from vp_scheduler.placement.host_scorer import HostScorer
from vp_scheduler.placement.host_view import HostView
from vp_scheduler.weighers import VPInterferenceWeigher

ROUNDS = 7
JUDGED = 20_000
"""Hosts in all rounds together, at least: few hosts are soon judged, and are judged more often."""
SERVERS = 20
SHAPES = ((2, 16), (4, 8), (8, 8), (2, 14))
"""LLC domains of a host, and CPUs of its first one; the others have 16 or 8."""
BUDGET_US = 5.0
HURT, CALM = 310, 0
"""Thousandths that a newcomer would lose."""


class Fleet:
    """Hosts as Nova has them, and as their agents tell of them."""

    def __init__(self, count: int) -> None:
        self.names = [f"compute-{number:05d}" for number in range(count)]
        self.servers = [
            [f"{number * SERVERS + n:08x}-0000-4000-8000-000000000000" for n in range(SERVERS)]
            for number in range(count)
        ]
        self.states = [self._state(number) for number in range(count)]
        self._texts = [self._text(number) for number in range(count)]
        self._key = new_private_key()

    def digests(self, sequence: int) -> list[str]:
        """Those of one round: all new, and not one of them as it was in the round before."""
        return [
            text.replace('"seq":0', f'"seq":{sequence}').replace(
                '"free_mcores":9000', f'"free_mcores":{9000 + sequence}'
            )
            for text in self._texts
        ]

    def seal(self, digests: list[str]) -> tuple[Verifier, list[Sealed]]:
        """As their hosts sign them, all with one key; and who believes them."""
        senders = [Sender(Process.AGENT, name) for name in self.names]
        ring = ToldKeys()
        ring.accept(dict.fromkeys(senders, (self._key.public_key(),)))
        return Verifier(ring), [
            Signer(sender, self._key).seal(wire.DIGEST_TOPIC, "digest", {"text": text})
            for sender, text in zip(senders, digests, strict=True)
        ]

    def _state(self, number: int) -> HostState:
        state = HostState(self.names[number], self.names[number], self.servers[number][0])
        state.free_ram_mb = 65536 + number
        state.ram_allocation_ratio = state.cpu_allocation_ratio = 1.0
        state.instances = {uuid: objects.Instance(uuid=uuid) for uuid in self.servers[number]}
        state.num_instances = len(state.instances)
        state.numa_topology = _topology()
        state.allocation_candidates = [{"mappings": None}]
        return state

    def _text(self, number: int) -> str:
        count, first = SHAPES[number % len(SHAPES)]
        hurt = HURT if number % 2 else CALM
        uuids = self.servers[number]
        message = {
            "v": wire.VERSION,
            "host": self.names[number],
            "epoch": 1,
            "seq": 0,
            "mode": "enforce",
            "homing": number % 5 != 0,
            "age_ms": 0,
            "domains": [_domain(n, hurt, first if n == 0 else max(8, first)) for n in range(count)],
            "known": wire.pack_known(uuids),
            "classes": wire.pack_classes({uuid: n % 9 for n, uuid in enumerate(uuids)}),
            "service": [4000 + number % 4000, number % 20, 9000],
        }
        return wire.encode(wire.DIGEST_TOPIC, message)


def _domain(number: int, hurt: int, cpus: int) -> dict[str, Any]:
    residents = [(state * 7 + number) % 40 for state in range(wire.PREDICT_CLASSES)]
    return {
        "id": number,
        "free_mcores": 9000,
        "cpus": cpus,
        "vcpus": 4 + number % 3,
        "newcomer": [hurt + (state + number) % 10 for state in range(wire.PREDICT_CLASSES)],
        "resident": residents,
        "strict": [permille // 2 for permille in residents],
    }


def _topology() -> Any:
    cells = [
        numa_objects.NUMACell(
            id=node,
            cpuset=set(range(node * 16, node * 16 + 16)),
            pcpuset=set(),
            memory=65536,
            cpu_usage=4,
            memory_usage=8192,
            mempages=[],
            siblings=[],
            pinned_cpus=set(),
            network_metadata=objects.NetworkMetadata(physnets=set(), tunneled=False),
            socket=node,
        )
        for node in range(2)
    ]
    return numa_objects.NUMATopology(cells=cells)


STRICT = {"vp:isolation": "strict", "vp:expects": "cache", "hw:numa_nodes": "1"}
BEST_EFFORT = {"vp:class": "best-effort"}


def a_request(extra_specs: Mapping[str, str] = STRICT) -> Any:
    flavor = objects.Flavor(
        flavorid="f1", name="f1", vcpus=2, memory_mb=2048, root_gb=0, extra_specs=dict(extra_specs)
    )
    cell = objects.InstanceNUMACell(
        id=0, cpuset={0, 1}, pcpuset=set(), memory=2048, pagesize=None, cpu_policy="shared"
    )
    return objects.RequestSpec(
        flavor=flavor,
        instance_uuid="ffffffff-0000-4000-8000-000000000000",
        num_instances=1,
        scheduler_hints={},
        image=objects.ImageMeta(properties=objects.ImageMetaProps()),
        numa_topology=objects.InstanceNUMATopology(cells=[cell]),
        pci_requests=None,
        limits=objects.SchedulerLimits(),
    )


def cpu_s(work: Callable[[], Any]) -> tuple[float, Any]:
    began_s = time.thread_time()
    result = work()
    return time.thread_time() - began_s, result


class Round:
    """What one round took, in seconds, by name."""

    def __init__(self, fleet: Fleet, placement: HostScorer, sequence: int) -> None:
        digests = fleet.digests(sequence)
        filters, weights, spec = HostFilterHandler(), HostWeightHandler(), a_request()
        ours = VPIsolationFilter(placement), VPInterferenceWeigher(placement)
        verifier, sealed = fleet.seal(digests)
        verify_s, calls = cpu_s(
            lambda: [verifier.open(*one, {wire.DIGEST_TOPIC}) for one in sealed]
        )
        accept_s, _ = cpu_s(
            lambda: [
                placement.view.accept(call.arguments["text"], call.sender.host) for call in calls
            ]
        )
        filter_s, self.passed = cpu_s(
            lambda: filters.get_filtered_objects([ours[0]], fleet.states, spec)
        )
        weigh_s, _ = cpu_s(lambda: weights.get_weighed_objects([ours[1]], self.passed, spec))
        again_s, _ = cpu_s(
            lambda: weights.get_weighed_objects(
                [ours[1]], filters.get_filtered_objects([ours[0]], fleet.states, spec), spec
            )
        )
        classed = a_request(BEST_EFFORT)
        class_s, _ = cpu_s(
            lambda: weights.get_weighed_objects(
                [ours[1]], filters.get_filtered_objects([ours[0]], fleet.states, classed), classed
            )
        )
        ram_s, _ = cpu_s(lambda: weights.get_weighed_objects([RAMWeigher()], fleet.states, spec))
        numa_s, _ = cpu_s(
            lambda: filters.get_filtered_objects([NUMATopologyFilter()], fleet.states, spec)
        )
        self.took_s = {
            "ours": filter_s + weigh_s,
            "RAMWeigher": ram_s,
            "NUMATopologyFilter": numa_s,
            "ours, filter": filter_s,
            "ours, weigher": weigh_s,
            "ours, same digests again": again_s,
            "ours, best-effort server": class_s,
            "accept": accept_s,
            "verify": verify_s,
        }


def measure_hosts(count: int) -> dict[str, Any]:
    # As in nova-scheduler, where one line per request and plugin is told.
    log = logging.getLogger("vp_scheduler")
    log.addHandler(logging.NullHandler())
    log.setLevel(logging.INFO)
    rounds = max(ROUNDS, JUDGED // count)
    fleet = Fleet(count)
    placement = HostScorer(HostView(180.0))
    found = []
    for sequence in range(1, rounds + 1):
        found.append(Round(fleet, placement, sequence))
        progress(f"{count} hosts, round {sequence} of {rounds}")
    median = _us_per_host(found, statistics.median, count)
    least = _us_per_host(found, min, count)
    if any(len(one.passed) != count // 2 for one in found):
        raise RuntimeError("half the hosts ought to pass: the digests are not what is said here")
    return {
        "hosts": count,
        "passed": len(found[0].passed),
        "rounds": rounds,
        "accept_us_per_digest": median.pop("accept"),
        "verify_us_per_digest": median.pop("verify"),
        "us_per_host": median,
        "us_per_host_least": least,
    }


def _us_per_host(
    found: Sequence[Round], which: Callable[[Iterable[float]], float], count: int
) -> dict[str, float]:
    return {
        name: round(which([one.took_s[name] for one in found]) * 1e6 / count, 2)
        for name in found[0].took_s
    }


def numbers_of(found: Mapping[str, Any]) -> Numbers:
    """Of one size."""
    count = found["hosts"]
    numbers = {
        f"{name}, {count} hosts, us per host": us for name, us in found["us_per_host"].items()
    }
    return {**numbers, f"accept, {count} hosts, us per digest": found["accept_us_per_digest"]}


def measure() -> Numbers:
    numbers: dict[str, float] = {}
    for count in SIZES:
        numbers |= numbers_of(measure_hosts(count))
    return numbers


def budgets(*sizes: int) -> Mapping[str, Budget]:
    return {
        f"{name}, {count} hosts, us per host": scaled(BUDGET_US)
        for count in sizes
        for name in ("ours", "ours, best-effort server")
    }


SIZES = (1000, 10_000)
BENCHMARK = Benchmark(
    name="scheduler",
    about="CPU time of filter and weigher per host, in Nova's handlers, on new digests",
    budgets=budgets(*SIZES),
    measure=measure,
)


def of_size(count: int) -> Benchmark:
    """With the least that was measured, too, as JSON."""
    return replace(
        BENCHMARK,
        budgets=budgets(count),
        measure=lambda: measure_hosts(count),
        numbers_of=numbers_of,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=BENCHMARK.about)
    parser.add_argument("--hosts", type=int, help="only this many; without: 1000, then 10000")
    parser.add_argument("--json", action="store_true", help="the numbers alone, as JSON")
    arguments = parser.parse_args()
    asked = of_size(arguments.hosts) if arguments.hosts else BENCHMARK
    return run(asked, as_json=arguments.json)


if __name__ == "__main__":
    sys.exit(main())
