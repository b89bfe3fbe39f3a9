# SPDX-License-Identifier: Apache-2.0
"""Hosts on which only permits act: one cache, polluters in it, and who does not miss at all."""

from nova_vp.core.types.knob import Knob
from tests.policies import a_policy
from tests.unit.core.build import Host, Rates, nodes_of, uuid_of

POLICY = a_policy(controllers=("permits",))
POLLUTER = Rates(mips=100, l2_mpki=45.0, mpki=45.0, cpi=20.0, cores=1.0)
"""It streams: 4500 LLC misses per ms of running, with or without neighbours."""
QUIET = Rates(mips=100, l2_mpki=20.0, mpki=0.5, cpi=1.0, cores=1.0)
"""50 misses per ms of running."""
CACHED = Rates(mips=100, l2_mpki=40.0, mpki=12.0, cpi=4.0, cores=1.0)
"""It lives off the cache: 1200 misses per ms of running, at a memory factor of 0.3."""
CACHED_BESIDE = Rates(mips=50, l2_mpki=40.0, mpki=32.0, cpi=8.0, cores=1.0)
"""The same beside polluters: it gets half as far, and misses 1600 per ms of running."""
CAPS = frozenset({Knob.PLACEMENT, Knob.CPU_CAP})
PARTITIONS = CAPS | {Knob.LLC}


def a_host(policy=POLICY, knobs=CAPS, cpus: int = 4) -> Host:
    return Host(nodes_of(0, cpus=cpus), policy, knobs=knobs)


def with_permit(permit: object, **fields) -> dict[str, object]:
    """What a server of such a flavor has."""
    keys = (("vp:llc_permit", str(permit)),)
    return {"controller_keys": keys, "cap_floor_ratio": 0.01, **fields}


def account(host: Host, name: str):
    return host.state.controllers["permits"].by_guest[uuid_of(name)]


def mean_cores(host: Host, name: str, seconds: int) -> float:
    """CPU that it used per second."""
    before = host.guest(name).cpu_time_ns
    host.ticks(seconds)
    return (host.guest(name).cpu_time_ns - before) / 1e9 / seconds
