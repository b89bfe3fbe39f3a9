# SPDX-License-Identifier: Apache-2.0
"""Hosts on which only Merlin acts: a worker has two vCPUs on one CPU, and uses all of it."""

from dataclasses import replace

from nova_vp.core.controllers.merlin.declaration import MORE_CPU
from nova_vp.core.types.policy import Policy
from tests.policies import a_policy
from tests.unit.core.build import ALL_KNOBS, COMPUTE, Host, Rates, nodes_of

POLICY = a_policy(controllers=("merlin",))
WORKER = Rates(mips=100, l2_mpki=0.5, mpki=0.1, cpi=1.0, cores=2.0)
"""A pug: it does not care where its memory is."""
BUSY = replace(COMPUTE, cores=0.9)
STORE = Rates(mips=40, l2_mpki=40.0, mpki=14.0, cpi=2.0, cores=0.5)
"""State 4: it minds its neighbours, and must not leave its memory."""
STORE_HURT = replace(STORE, mips=20, mpki=30.0, cpi=4.0)
STORMY_WORKER = replace(WORKER, l2_mpki=70.0, mpki=1.9)


def a_worker(*nodes: int, cpus: int = 3, policy: Policy = POLICY, **worker) -> Host:
    host = Host(nodes_of(*nodes, cpus=cpus), policy, knobs=ALL_KNOBS)
    host.add("worker", WORKER, **{"cpus": {0}, "vcpus": 2, "node": 0, **worker})
    return host


def with_store(host: Host, cpus: set[int], **fields) -> None:
    """The store is hurt for as long as the worker has more than one CPU in its LLC."""

    def run(host: Host) -> None:
        beside = next(d.cpus for d in host.topology.domains if d.cpus & host.placement("store"))
        many = len(host.placement("worker") & beside) > 1
        host.run("worker", STORMY_WORKER if many else WORKER)
        host.run("store", STORE_HURT if many else STORE)

    host.add("store", STORE, cpus=cpus, **{"node": 0, **fields})
    host.run("worker", replace(WORKER, cores=0.5))
    host.ticks(6)
    host.rule = run


def with_a_full_node_elsewhere(far: Rates) -> Host:
    host = a_worker(0, 1)
    with_store(host, {1})
    host.add("far", replace(far, cores=1.2), cpus={3, 4}, vcpus=2, node=1)
    host.add("full", replace(BUSY, cores=0.9), cpus={5}, node=1)
    host.add("beside", replace(BUSY, cores=0.1), cpus={1}, node=0)
    host.until(MORE_CPU)
    return host


def sensitive_pair(**store) -> Host:
    """Nobody in the set may leave its memory."""
    host = Host(nodes_of(0, 1, cpus=4), POLICY, knobs=ALL_KNOBS)
    alone = replace(STORE, cores=2.0)
    host.add("worker", replace(alone, cores=0.5), cpus={0}, vcpus=2, node=0, memory_kib=400_000)
    host.add("store", STORE, cpus={1}, node=0, **store)
    host.ticks(6)

    def run(host: Host) -> None:
        many = host.share_a_cache("worker", "store") and len(host.placement("worker")) > 1
        host.run("worker", replace(alone, l2_mpki=70.0, mpki=30.0) if many else alone)
        host.run("store", STORE_HURT if many else STORE)

    host.rule = run
    return host
