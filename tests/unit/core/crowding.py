# SPDX-License-Identifier: Apache-2.0
"""Physics of CPUs for core tests: guests that want CPU share what they may run on, or wait.

Nothing is predicted here: each second every guest takes small slices in turn, from the CPU with
most room of those that it may run on, until it has what it wants or nothing is left. What its quota
forbids is throttled, and is in the run delay too, as the kernel counts it.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace

from nova_vp.core.types.cpu_time import CpuTimes, HostCpuTimes
from nova_vp.core.types.guest import Guest
from tests.unit.core.build import COMPUTE, Host, Rates

SLICE = 0.01
NS = 10**9
TICKS_PER_S = 100


def shared_cpus(alone: dict[str, Rates]) -> Callable[[Host], None]:
    """`alone`: how each guest would run with CPUs of its own; its `cores` is what it wants."""

    def run(host: Host) -> None:
        allowed = {name: _allowed(host.guest(name), rates) for name, rates in alone.items()}
        got = _shared(host, allowed)
        for name, rates in alone.items():
            share = got[name] / rates.cores if rates.cores else 0.0
            host.run(name, replace(rates, mips=rates.mips * share, cores=got[name]))
            _count(host, name, got[name], allowed[name] - got[name], rates.cores - allowed[name])

    return run


def _allowed(guest: Guest, rates: Rates) -> float:
    return min(rates.cores, guest.vcpus * min(guest.quota.cores, 1.0))


def _shared(host: Host, wanted: dict[str, float]) -> dict[str, float]:
    room = dict.fromkeys(host.topology.cpus, 1.0)
    got = dict.fromkeys(wanted, 0.0)
    hungry = {name for name, cores in wanted.items() if cores > 0}
    while hungry:
        for name in sorted(hungry):
            cpu = max(host.placement(name), key=lambda one: (room[one], -one))
            most = len(host.placement(name))
            taken = min(SLICE, room[cpu], wanted[name] - got[name], most - got[name])
            if taken < 1e-9:
                hungry.discard(name)
                continue
            room[cpu] -= taken
            got[name] += taken
    return got


def _count(host: Host, name: str, ran: float, waited: float, throttled: float) -> None:
    was = host.guest(name).cpu_times or CpuTimes(0, 0, 0, "1")
    times = CpuTimes(
        was.ran_ns + round(ran * NS),
        was.run_delay_ns + round((waited + throttled) * NS),
        was.throttled_ns + round(throttled * NS),
        was.generation,
    )
    host.change(name, cpu_times=times)


def give(host: Host, name: str, ran: float, waited: float, throttled: float = 0.0) -> None:
    """So many cores of each for one second: it computes in its registers."""
    host.run(name, replace(COMPUTE, mips=100 * ran, cores=ran))
    _count(host, name, ran, waited, throttled)


def beside_host_processes(
    host: Host,
    rule: Callable[[Host], None],
    cores: Mapping[int, float],
    others: frozenset[int] = frozenset(),
) -> None:
    """On each CPU so much is taken by processes of the host, besides what guests run. `others`:
    CPUs that the kernel tells of, and this host does not have."""

    def run(host: Host) -> None:
        rule(host)
        was = host.host_cpu
        assert was is not None
        ran = dict.fromkeys(was.taken_ticks, 0.0)
        for guest in host.guests.values():
            for cpu in guest.placement:
                ran[cpu] += host.rates[guest.uuid].cores / len(guest.placement)
        host.host_cpu = HostCpuTimes(
            was.total_ticks + TICKS_PER_S * len(ran),
            0,
            {
                cpu: was.taken_ticks[cpu] + round(TICKS_PER_S * (used + cores.get(cpu, 0.0)))
                for cpu, used in ran.items()
            },
        )

    host.host_cpu = HostCpuTimes(0, 0, dict.fromkeys(host.topology.cpus | others, 0))
    host.rule = run
