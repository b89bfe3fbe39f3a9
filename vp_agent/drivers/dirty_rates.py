# SPDX-License-Identifier: Apache-2.0
"""How fast guests write their memory, as QEMU samples it: a live migration has to keep up.

QEMU hashes some of each guest's pages now and a second later; it needs no dirty log, and works
with KVM and TCG. Asked on a connection and a thread of its own, for some guests at a time, and
only when an escalation is about to be sent.
"""

import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any

import libvirt

from vp_agent.drivers.base import DriverError
from vp_agent.drivers.connection import Connection

LOG = logging.getLogger(__name__)
SPAN_S = 1
POLL_S = 0.25
WITHIN_S = 3.0
_KIB = 1024


class LibvirtDirtyRates:
    """`vp_agent.publish.escalator.DirtyRates`."""

    def __init__(self, uri: str) -> None:
        self._connection = Connection(uri)

    def measure(self, guest_uuids: Sequence[str], stop: threading.Event) -> Mapping[str, float]:
        waited_for = {uuid for uuid in guest_uuids if self._began(uuid)}
        rates: dict[str, float] = {}
        for _ in range(round(WITHIN_S / POLL_S)):
            if not waited_for or stop.wait(POLL_S):
                break
            for uuid in tuple(waited_for):
                rate = self._rate(uuid)
                if rate is not None:
                    waited_for.remove(uuid)
                    rates[uuid] = rate
        return {uuid: rate for uuid, rate in rates.items() if rate >= 0}

    def close(self) -> None:
        self._connection.close()

    def _began(self, uuid: str) -> bool:
        """False for one that is gone, or in a job, or whose QEMU or libvirt knows no dirty rate."""
        try:
            self._connection.change(uuid, lambda domain: domain.startDirtyRateCalc(SPAN_S, 0))
        except (DriverError, AttributeError) as exc:
            LOG.debug("vp=%s its dirty rate cannot be measured: %s", uuid, exc)
            return False
        return True

    def _rate(self, uuid: str) -> float | None:
        """None until QEMU has measured it; negative if it could not."""
        try:
            stats = self._connection.call(lambda c: _stats(c.lookupByUUIDString(uuid)))
        except DriverError:
            return None
        if stats.get("dirtyrate.calc_status") != libvirt.VIR_DOMAIN_DIRTYRATE_MEASURED:
            return None
        return float(stats.get("dirtyrate.megabytes_per_second", 0) * _KIB)


def _stats(domain: Any) -> Mapping[str, Any]:
    connection = domain.connect()
    [(_, stats)] = connection.domainListGetStats([domain], libvirt.VIR_DOMAIN_STATS_DIRTYRATE, 0)
    return dict(stats)
