# SPDX-License-Identifier: Apache-2.0
"""What the software PMU has counted of a paced guest so far: all fields, of all its vCPUs."""

import json
import struct
import subprocess

from tests.bench.paced_guests import VPMU, PacedHost


class PacedCounters:
    def __init__(self, host: PacedHost) -> None:
        self._host = host
        layout = subprocess.run(
            [VPMU / "vpmu", "layout", "--json"], check=True, capture_output=True, text=True
        )
        self._layout = json.loads(layout.stdout)

    def total(self, name: str, *fields: str) -> list[int]:
        """Of each field, from one reading of the guest's file."""
        guest = self._host.guests[name]
        data = (self._host.counters / f"vm.{guest.domain.name()}").read_bytes()
        first, slot = self._layout["vm"]["bytes"], self._layout["slot"]

        def value(field: str, vcpu: int) -> int:
            at = first + vcpu * slot["bytes"] + slot["fields"][field]["offset"]
            return int(struct.unpack_from("<Q", data, at)[0])

        return [sum(value(field, vcpu) for vcpu in range(guest.vcpus)) for field in fields]
