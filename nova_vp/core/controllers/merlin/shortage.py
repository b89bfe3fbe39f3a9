# SPDX-License-Identifier: Apache-2.0
"""Whether a VP is short of CPU: what it uses, of what it can get (thesis 3.2.1).

What it can get is what its placement and its cap leave it, or what others leave it on CPUs that it
shares with them: CPU waiting is measured, not guessed. Where to get more is not known here.
"""

from nova_vp.core.controllers.merlin.declaration import MerlinSettings
from nova_vp.core.model.host import allotted_cores
from nova_vp.core.types.cpu_time import CpuUse
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.state import VpState


def is_short_of_cpu(guest: Guest, vp: VpState, settings: MerlinSettings, policy: Policy) -> bool:
    """It uses nearly all that it can get, which is less than its vCPUs could use."""
    wants_more = cpu_sensitivity(vp, guest, policy) > settings.demand_sensitivity
    return wants_more and attainable_cores(vp, guest, policy) < guest.vcpus


def cpu_sensitivity(vp: VpState, guest: Guest, policy: Policy) -> float:
    """CPU utilisation over allocated CPU."""
    if vp.sample is None:
        return 0.0
    return min(1.0, vp.sample.cpu_cores / attainable_cores(vp, guest, policy))


def attainable_cores(vp: VpState, guest: Guest, policy: Policy) -> float:
    """Who waits for CPU has all that it can get."""
    allotted = allotted_cores(guest)
    use = use_while_waiting(vp, policy)
    if use is None:
        return allotted
    return min(allotted, use.ran_cores)


def waits_for_cpu(vp: VpState, policy: Policy) -> bool:
    return use_while_waiting(vp, policy) is not None


def use_while_waiting(vp: VpState, policy: Policy) -> CpuUse | None:
    """Of who waits for CPUs that others use; time in which a quota throttled it is no waiting."""
    use = vp.recent_cpu_use
    if (
        use is not None
        and use.samples >= policy.dwell_samples
        and use.ran_cores > 0
        and use.waited_cores >= use.throttled_cores
        and use.waiting_ratio > policy.cpu_waiting_ratio
    ):
        return use
    return None


def speedup_without_waiting(use: CpuUse, more_cpus: int) -> float:
    """CPU that it would get with so many free CPUs more, over what it gets."""
    return 1 + min(use.waited_cores, more_cpus) / use.ran_cores
