# SPDX-License-Identifier: Apache-2.0
"""A guests driver on top of another one: what it adds to the guests is for `read` to say."""

from nova_vp.core.types.cpu_time import HostCpuTimes
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.topology import Topology
from vp_agent.drivers.base import GuestsDriver, VcpuThreads


class WrappedGuests:
    def __init__(self, guests: GuestsDriver) -> None:
        self._guests = guests

    def topology(self) -> Topology:
        return self._guests.topology()

    def read(self) -> tuple[Guest, ...]:
        return self._guests.read()

    def stopped(self) -> frozenset[str]:
        return self._guests.stopped()

    def host_name(self) -> str:
        return self._guests.host_name()

    def threads(self) -> tuple[VcpuThreads, ...]:
        return self._guests.threads()

    def host_cpu(self) -> HostCpuTimes | None:
        return self._guests.host_cpu()

    def close(self) -> None:
        self._guests.close()
