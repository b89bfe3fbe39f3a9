# SPDX-License-Identifier: Apache-2.0
"""Recording on this host: from ticks to a file, on a thread of its own.

The tick hands over values and goes on. A disk that is full, slow or gone ends the recording, with
words, and never a tick. What the lines hold is `nova_vp.recording.file_format`'s.
"""

import contextlib
import logging
import os
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nova_vp.core.types.action import Outcome
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.state import CoreState
from nova_vp.recording.file_format import VERSION_KEY, Header, LineWriter, Tick, answered, told

LOG = logging.getLogger(__name__)
WAITING_TICKS = 256
"""That the disk may be behind; each time that calls are answered between two ticks is one, too."""
CLOSE_TIMEOUT_S = 5.0
_MODE = 0o600
_CHUNK_BYTES = 1 << 16


class CannotRecord(Exception):
    """The message says why, and what would do."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One tick, or what was answered between two, whole."""

    policy: Policy
    before: CoreState
    picture: Picture
    decision: Decision
    outcomes: tuple[Outcome, ...]
    after: CoreState
    is_between: bool = False


@dataclass(frozen=True, slots=True)
class RecordingState:
    file: str = ""
    """Empty: nothing is recorded."""
    problem: str = ""
    """Why the last recording ended by itself."""


class Recorder:
    """Starts, stops and is asked from any thread; ticks come from one."""

    def __init__(self, host: str, max_bytes: int) -> None:
        self._host = host
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._writer: _Writer | None = None
        self._problem = ""

    def start(self, path: str) -> None:
        """Raises CannotRecord. A recording that runs goes on, into the new file."""
        running = self._writer
        if running is not None and running.path == path:
            self.close()  # Two writers of one file would mix their lines.
        tape = _Tape(path, self._host, self._max_bytes)
        with self._lock:
            old, self._writer, self._problem = self._writer, _Writer(tape, self._ended), ""
        if old:
            old.close()

    def order(self, path: str) -> str:
        """Start, or stop if the path is empty. Returns the file that was recorded into until now,
        empty if none was. Raises CannotRecord."""
        before = self.state().file
        if path:
            self.start(path)
        else:
            self.close()
        return before

    def close(self) -> None:
        """Returns when all is written, or after CLOSE_TIMEOUT_S."""
        with self._lock:
            writer, self._writer, self._problem = self._writer, None, ""
        if writer:
            writer.close()

    def state(self) -> RecordingState:
        with self._lock:
            return RecordingState(self._writer.path if self._writer else "", self._problem)

    def record(self, seen: Snapshot) -> None:
        """Never raises and never waits for the disk."""
        writer = self._writer
        if writer is not None:
            writer.take(seen)

    def _ended(self, writer: "_Writer", why: str) -> None:
        LOG.error("the recording to %s stopped: %s", writer.path, why)
        with self._lock:
            if self._writer is writer:
                self._writer, self._problem = None, why


Ended = Callable[["_Writer", str], None]


class _Writer:
    """One recording: a queue, and the thread that empties it."""

    def __init__(self, tape: "_Tape", ended: Ended) -> None:
        self.path = tape.path
        self._tape = tape
        self._ended = ended
        self._waiting: queue.Queue[Snapshot | None] = queue.Queue(WAITING_TICKS)
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="record", daemon=True)
        self._thread.start()

    def take(self, seen: Snapshot) -> None:
        if self._is_closed:
            return
        try:
            self._waiting.put_nowait(seen)
        except queue.Full:
            self._is_closed = True
            self._ended(self, f"the disk is more than {WAITING_TICKS} ticks behind")

    def close(self) -> None:
        """A disk that hangs keeps its last ticks to itself."""
        self._is_closed = True
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=CLOSE_TIMEOUT_S)
        self._thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        try:
            while not (self._is_closed and self._waiting.empty()):
                seen = self._waiting.get()
                if seen is None:
                    break
                self._tape.write(seen)
        except Exception as exc:  # whatever it is, the agent goes on without its recording
            self._is_closed = True
            self._ended(self, str(exc) or type(exc).__name__)
        finally:
            self._tape.close()


class _Tape:
    """The file: whole lines only, begun anew when it is large."""

    def __init__(self, path: str, host: str, max_bytes: int) -> None:
        """Raises CannotRecord."""
        self.path = path
        self._host, self._max_bytes = host, max_bytes
        self._lines = LineWriter()
        self._last: tuple[Policy, CoreState] | None = None
        if not os.path.isabs(path):
            raise CannotRecord(f"{path!r} is not an absolute path; give one")
        try:
            self._fd, self._size = _open(path)
        except OSError as exc:
            raise CannotRecord(f"cannot record to {path}: {exc.strerror}") from exc

    def write(self, seen: Snapshot) -> None:
        """Raises OSError; then the file ends with the line before."""
        if self._size > self._max_bytes:
            self._begin_anew()
        if not self._goes_on(seen):
            header = Header(self._host, time.time(), seen.policy, seen.before)
            self._append(self._lines.header(header))
        outcomes, decided = answered(seen.outcomes), told(seen.decision)
        tick = Tick(seen.picture, outcomes, decided, seen.is_between)
        self._append(self._lines.tick(tick))
        self._last = seen.policy, seen.after

    def _goes_on(self, seen: Snapshot) -> bool:
        """Where the tick before it ended, and by the same numbers."""
        last = self._last
        return last is not None and last[0] is seen.policy and last[1] is seen.before

    def close(self) -> None:
        os.close(self._fd)

    def _begin_anew(self) -> None:
        os.replace(self.path, f"{self.path}.1")
        fd, self._size = _open(self.path)
        os.close(self._fd)
        self._fd, self._last = fd, None

    def _append(self, line: str) -> None:
        left = memoryview(line.encode())
        whole = len(left)
        try:
            while left:
                left = left[os.write(self._fd, left) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, self._size)
            raise
        self._size += whole


def _open(path: str) -> tuple[int, int]:
    """To append to a recording or to a new file, and its size. Raises OSError, CannotRecord."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    fd = os.open(path, flags, _MODE)
    try:
        if not Path(path).is_file():
            raise CannotRecord(f"{path} is not a regular file; give another file")
        size = os.fstat(fd).st_size
        if size and not os.pread(fd, _CHUNK_BYTES, 0).startswith(f'{{"{VERSION_KEY}"'.encode()):
            raise CannotRecord(f"{path} is not a recording; give another file")
        whole = _whole_lines(fd, size)
        os.ftruncate(fd, whole)
    except BaseException:
        os.close(fd)
        raise
    return fd, whole


def _whole_lines(fd: int, size: int) -> int:
    """Bytes up to the last newline: an agent that was killed may have left half a line."""
    end = size
    while end > 0:
        start = max(0, end - _CHUNK_BYTES)
        at = os.pread(fd, end - start, start).rfind(b"\n")
        if at >= 0:
            return start + at + 1
        end = start
    return 0
