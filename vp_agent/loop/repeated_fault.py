# SPDX-License-Identifier: Apache-2.0
"""A fault that ends the agent again and again: each start waits for longer.

An agent that ticks for some seconds, fails in a way nobody foresaw and is started anew moves
servers there and back each time. How often it failed is kept in the run folder: a boot forgets it,
and a full disk keeps nobody from writing it. Stopping the agent, also while it waits, forgets it as
well. Kills are no faults of the agent, and are not counted.
"""

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from nova_vp.service.run_dir import boot_clock_s

LOG = logging.getLogger(__name__)
FILE = "agent.faults"
STEADY_S = 300.0
"""An agent that ran so long was well."""
FIRST_PAUSE_S, MOST_PAUSE_S = 10.0, 600.0
_BEAT_EVERY_S = 5.0
_MOST_COUNTED = 100


class RepeatedFault:
    def __init__(self, folder: Path, clock_s: Callable[[], float] = boot_clock_s) -> None:
        self._file = folder / FILE
        self._clock_s = clock_s
        self._steady_at_s: float | None = None

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """What is done here; whatever it raises is a fault, and passes through."""
        try:
            yield
        except Exception:
            self._write(self._read() + 1)
            raise
        self.forget()

    def wait_out(self, stop: threading.Event, beat: Callable[[], None]) -> None:
        """The longer, the more runs before this one ended by a fault; less if told to stop."""
        faults = self._read()
        if pause_s := pause_after(faults):
            LOG.error(
                "the agent ended by a fault %d times in a row: it acts again in %.0f s. See the "
                "errors above in its log; a stop and a start act at once",
                faults,
                pause_s,
            )
        until_s = self._clock_s() + pause_s
        while (left_s := until_s - self._clock_s()) > 0:
            beat()
            if stop.wait(min(left_s, _BEAT_EVERY_S)):
                break
        self._steady_at_s = self._clock_s() + STEADY_S

    def ticked(self) -> None:
        """What was before no longer counts, once this run has lasted."""
        if self._steady_at_s is not None and self._clock_s() >= self._steady_at_s:
            self.forget()

    def forget(self) -> None:
        self._steady_at_s = None
        with contextlib.suppress(OSError):
            self._file.unlink()

    def _read(self) -> int:
        try:
            return min(max(int(self._file.read_text()), 0), _MOST_COUNTED)
        except (OSError, ValueError):
            return 0

    def _write(self, faults: int) -> None:
        try:
            self._file.write_text(f"{faults}\n")
        except OSError as exc:
            LOG.warning("the next start does not know that this run ended by a fault: %s", exc)


def pause_after(faults: int) -> float:
    """One fault may be chance."""
    if faults < 2:
        return 0.0
    return float(min(FIRST_PAUSE_S * 2 ** (faults - 2), MOST_PAUSE_S))
