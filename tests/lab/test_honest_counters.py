# SPDX-License-Identifier: Apache-2.0
"""The software PMU sees where a vCPU really runs, and nothing else moves its numbers.

No agent takes part: it is stopped, so only the kernel can have told.
"""

import os

import pytest

from testbed.lab import cloud
from testbed.lab.monitor import qemu_pid, vcpu_threads
from tests.lab.counters import memory_factor
from tests.lab.hosts import set_mode
from tests.lab.rates import Rates

HOST = "vp2"


@pytest.fixture(scope="module")
def pair(admin):
    """chase on CPU 0, stream on CPU 1, by bare affinity."""
    cloud.stop(f"vp-agent@{HOST}")
    chase = cloud.boot(admin, "t-chase", "vp.tiny", "work=chase:384", host=HOST)
    stream = cloud.boot(admin, "t-stream", "vp.tiny", "work=stream:8192", host=HOST)
    run_on(chase, 0)
    run_on(stream, 1)
    rates = Rates(HOST)
    rates.follow("chase", chase.id)
    rates.follow("stream", stream.id)
    rates.wait_for_lines("chase", 3)
    rates.wait_for_lines("stream", 3)
    yield admin.compute.get_server(chase.id), admin.compute.get_server(stream.id)
    rates.close()
    cloud.start(f"vp-agent@{HOST}")
    set_mode(HOST, "advise")


def run_on(server, cpu: int) -> None:
    """What `taskset -p` does: the kernel's affinity of the vCPU thread, and that alone."""
    for tid in vcpu_threads(qemu_pid(server.id)).values():
        os.sched_setaffinity(tid, {cpu})


def wait_for_factor(server, accept, what: str) -> None:
    cloud.wait_for(lambda: accept(memory_factor(HOST, server.instance_name)), what, deadline_s=60)


def test_a_bare_taskset_shifts_the_memory_factor_and_back(pair):
    chase, stream = pair
    wait_for_factor(chase, lambda mf: mf < 0.1, "the chase to have its cache")
    run_on(stream, 0)
    wait_for_factor(chase, lambda mf: mf > 0.6, "the stream beside it to show")
    run_on(stream, 1)
    wait_for_factor(chase, lambda mf: mf < 0.1, "the chase to have its cache back")


def test_a_pin_that_is_only_recorded_shifts_nothing(pair):
    chase, stream = pair
    cloud.shell(HOST, "virsh", "vcpupin", stream.instance_name, "0", "0", "--config")
    recorded = cloud.shell(HOST, "virsh", "dumpxml", "--inactive", stream.instance_name).stdout
    assert "<vcpupin vcpu='0' cpuset='0'/>" in recorded
    factors = [memory_factor(HOST, chase.instance_name) for _ in range(5)]
    assert max(factors) < 0.1
