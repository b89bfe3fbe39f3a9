# SPDX-License-Identifier: Apache-2.0
"""Choosing the counter source: by name, or the best that works on this host.

Sources are entry points (`vp_agent.counters`), all made from the same settings, so that another
one can be installed beside ours. What a source does with the numbers lives in `counters_*.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from stevedore import DriverManager, ExtensionManager
from stevedore.exception import NoMatches

from vp_agent.drivers import cpu_model
from vp_agent.drivers.base import CountersDriver, CountersUnavailable
from vp_agent.drivers.hardware_events import CpuEvents, NoEvents, events_of

if TYPE_CHECKING:
    import libvirt

NAMESPACE = "vp_agent.counters"

AUTO = "auto"
BEST_FIRST = ("vpmu", "perf", "libvirt")
"""vpmu leads because its folder exists only where somebody made it: on a test host whose guests are
emulated, where hardware events would count the emulator's work. perf comes before libvirt since it
reads all events of a thread as one group and sees multiplexing; libvirt can do neither."""


@dataclass(frozen=True, slots=True)
class CounterSettings:
    """All that any source is made from."""

    connect: "Callable[[], libvirt.virConnect]"
    """The agent's one connection; raises HostUnavailable while there is none."""
    vpmu_directory: Path
    sys_directory: Path = Path("/sys")
    cpuinfo: Path = cpu_model.CPUINFO

    def cpu_events(self) -> CpuEvents:
        """What this host's CPU counts. Raises CountersUnavailable."""
        try:
            return events_of(cpu_model.read_cpu(self.cpuinfo))
        except (OSError, cpu_model.UnknownCpu, NoEvents) as error:
            raise CountersUnavailable(str(error)) from error


@dataclass(frozen=True, slots=True)
class OpenedCounters:
    driver: CountersDriver
    passed_over: tuple[str, ...]
    """One line for each better source that cannot work here: which, why and what would help."""


def open_counters(name: str, settings: CounterSettings) -> OpenedCounters:
    """Raises CountersUnavailable with all reasons if the source, or with `auto` none, can work."""
    if name != AUTO:
        return OpenedCounters(_open(name, settings), ())
    passed_over: list[str] = []
    for candidate in BEST_FIRST:
        try:
            return OpenedCounters(_open(candidate, settings), tuple(passed_over))
        except CountersUnavailable as error:
            passed_over.append(str(error))
    raise CountersUnavailable("no counter source works on this host:\n" + "\n".join(passed_over))


def _open(name: str, settings: CounterSettings) -> CountersDriver:
    try:
        manager = DriverManager(NAMESPACE, name, on_missing_entrypoints_callback=None)
    except NoMatches:
        raise CountersUnavailable(
            f"there is no counter source {name!r}: set [agent] counters to {AUTO} or one of "
            f"{', '.join(sorted(ExtensionManager(NAMESPACE).names()))}"
        ) from None
    try:
        driver: CountersDriver = manager.driver(settings)
    except CountersUnavailable as error:
        raise CountersUnavailable(f"{name}: {error}") from error
    return driver
