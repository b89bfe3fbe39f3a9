# SPDX-License-Identifier: Apache-2.0
"""What the cgroups of one guest say of its limits, tick after tick: their files stay open.

For reading what we hold; what is written, and looked at now and then, is `cgroups`' own.
"""

from collections.abc import Iterable, Sequence

from vp_agent.drivers import cgroups
from vp_agent.drivers.cgroups import CpuGroup
from vp_agent.drivers.kernel_file import KernelFile, Room


class QuotaFiles:
    """Of the vCPUs, each in its group."""

    def __init__(self, groups: Iterable[CpuGroup], room: Room) -> None:
        self._groups = [_files(one, cgroups.quota_names(one), room) for one in groups]

    def __bool__(self) -> bool:
        return bool(self._groups)

    def read(self) -> tuple[tuple[int, int], ...]:
        """Quota (-1: none) and period of each, in microseconds. Raises ProcessLookupError."""
        return tuple([cgroups.quota_in(_texts(files)) for files in self._groups])

    def close(self) -> None:
        for files in self._groups:
            for file in files:
                file.close()


class WeightFile:
    """Of the machine as a whole."""

    def __init__(self, group: CpuGroup, room: Room) -> None:
        self.is_unified = group.is_unified
        self._files = _files(group, [cgroups.weight_name(group)], room)

    def read(self) -> int:
        """0: idle, which only version 2 shows so. Raises ProcessLookupError."""
        [text] = _texts(self._files)
        return int(text)

    def close(self) -> None:
        for file in self._files:
            file.close()


class WeightFiles:
    """Of several groups of one machine, at least one."""

    def __init__(self, groups: Sequence[CpuGroup], room: Room) -> None:
        self.is_unified = groups[0].is_unified
        self._files = [WeightFile(one, room) for one in groups]

    def read(self) -> list[int]:
        """0: idle, which only version 2 shows so. Raises ProcessLookupError."""
        return [file.read() for file in self._files]

    def close(self) -> None:
        for file in self._files:
            file.close()


def _files(group: CpuGroup, names: Iterable[str], room: Room) -> list[KernelFile]:
    return [KernelFile(f"{group.path}/{name}", room) for name in names]


def _texts(files: Sequence[KernelFile]) -> list[bytes]:
    try:
        return [file.read() for file in files]
    except OSError as exc:  # ENODEV: the group went, and with it the guest.
        raise ProcessLookupError(f"{files[0].path} is gone") from exc
