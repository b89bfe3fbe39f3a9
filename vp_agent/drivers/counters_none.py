# SPDX-License-Identifier: Apache-2.0
"""A host on which no counter source works: it is watched by what libvirt says, and nothing is done.

Its guests are reported as unreadable and the reasons stand in every report, so that an operator
sees why, instead of an agent that does not start.
"""

from collections.abc import Iterable, Mapping

from nova_vp.core.types.sample import Reading
from vp_agent.drivers.base import VcpuThreads


class NoCounters:
    name = "none"

    def __init__(self, why: str) -> None:
        """`why`: what is the matter, and below it a line for each source."""
        headline, _, reasons = why.partition("\n")
        self._problems = {"host": f"{headline} {'; '.join(reasons.splitlines())}".strip()}

    def read(self, threads: Iterable[VcpuThreads]) -> Mapping[str, Reading]:
        return {}

    def problems(self) -> Mapping[str, str]:
        return self._problems

    def close(self) -> None:
        """Nothing was opened."""
