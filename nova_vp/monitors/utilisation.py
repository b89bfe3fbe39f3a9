# SPDX-License-Identifier: Apache-2.0
"""How busy CPUs are: what servers ran in the last samples, spread over the CPUs they may use."""

from collections.abc import Iterable, Mapping

from nova_vp.core.types.decision import VpView


def load_by_cpu(vps: Iterable[VpView]) -> Mapping[int, float]:
    """In cores."""
    load: dict[int, float] = {}
    for view in vps:
        if view.cpu_use is not None:
            share = view.cpu_use.ran_cores / len(view.guest.placement)
            for cpu in view.guest.placement:
                load[cpu] = load.get(cpu, 0.0) + share
    return load


def idle_cores(load: Mapping[int, float], cpus: Iterable[int]) -> float:
    """What those CPUs have left together."""
    return sum(max(0.0, 1.0 - load.get(cpu, 0.0)) for cpu in cpus)
