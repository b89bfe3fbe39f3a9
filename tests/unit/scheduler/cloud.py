# SPDX-License-Identifier: Apache-2.0
"""Nova's own handlers and objects around our filter and weigher, on a host view fed by digests."""

from collections.abc import Mapping
from typing import Any

from nova import objects
from nova.scheduler.filters import HostFilterHandler
from nova.scheduler.host_manager import HostState
from nova.scheduler.weights import HostWeightHandler

from tests.messages import a_domain, digest_text, hear
from vp_scheduler.filters import VPIsolationFilter
from vp_scheduler.placement.host_scorer import HostScorer
from vp_scheduler.placement.host_view import HostView
from vp_scheduler.weighers import VPInterferenceWeigher

CALM = a_domain(0), a_domain(1)
HOSTILE = a_domain(0, newcomer=0.31), a_domain(1, newcomer=0.4)
UUID = "11111111-2222-4333-8444-{:012x}"
ANY_LOAD = 1024


class Cloud:
    """A view fed by digests, and Nova's handlers on top of it."""

    def __init__(self, **digests: Any) -> None:
        self.now_s = 1000.0
        self.view = HostView(180.0, clock=lambda: self.now_s)
        self.placement = HostScorer(self.view)
        self.filter = VPIsolationFilter(self.placement)
        self.weigher = VPInterferenceWeigher(self.placement)
        for host, domains in digests.items():
            hear(self.view, digest_text(host, *domains))

    def passing(self, spec: Any, hosts: list[HostState]) -> list[str]:
        found = HostFilterHandler().get_filtered_objects([self.filter], hosts, spec)
        return [host.host for host in found]

    def ranked(self, spec: Any, hosts: list[HostState], *others: Any) -> dict[str, float]:
        found = HostWeightHandler().get_weighed_objects([*others, self.weigher], hosts, spec)
        return {weighed.obj.host: weighed.weight for weighed in found}


def a_host(name: str, free_ram_mb: int = ANY_LOAD, servers: Any = (), more: int = 0) -> HostState:
    host = HostState(name, name, UUID.format(0))
    host.free_ram_mb = free_ram_mb
    host.instances = {uuid: objects.Instance(uuid=uuid) for uuid in servers}
    host.num_instances = len(host.instances) + more
    return host


def a_request(
    isolation: str | None = "strict",
    vcpus: int = 1,
    server: str = UUID.format(1),
    fields: Mapping[str, Any] | None = None,
    **specs: str,
) -> Any:
    """`fields`: more of the RequestSpec; `specs`: `vp:` extra specs of the flavor."""
    extra_specs = {f"vp:{key}": value for key, value in specs.items()}
    if isolation:
        extra_specs["vp:isolation"] = isolation
    flavor = objects.Flavor(
        flavorid="f1", name="f1", vcpus=vcpus, memory_mb=64, root_gb=0, extra_specs=extra_specs
    )
    return objects.RequestSpec(
        flavor=flavor,
        instance_uuid=server,
        num_instances=1,
        scheduler_hints={},
        **(fields or {}),
    )
