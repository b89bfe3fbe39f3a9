# SPDX-License-Identifier: Apache-2.0
"""What other programs of a host may see of its agent: whether it runs, and the memory's load.

Three files in the agent's run folder, which any user of the host may read: they name no server.
They are files and no question to the agent: who looks, nova-compute above all, waits for nobody.
"""

import fcntl
import json
import math
import os
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

LOCK = "agent.lock"
LOAD = "agent.load"
BEAT = "agent.alive"
STALE_AFTER_S = 30.0
"""Six times as long as an agent that is well leaves its numbers alone."""
MAX_LOAD_BYTES = 256 * 1024
_VERSION = 1
_NO_LOAD = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


class NoLoad(Exception):
    """There are no numbers that anybody could use. The message says why, and what to do next."""


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """The memory of one NUMA node, as the host's servers use it."""

    node: int
    bytes_per_s: float
    limit_bytes_per_s: float | None
    """What it bears before requests queue; None: nobody measured."""


@dataclass(frozen=True, slots=True)
class Load:
    at_s: float
    """By the clock that counts from boot, sleep included."""
    source: str
    """Name of the counter source."""
    problem: str
    """Why there are no nodes; empty if there are."""
    nodes: tuple[NodeLoad, ...]

    @property
    def age_s(self) -> float:
        return boot_clock_s() - self.at_s


def boot_clock_s() -> float:
    """The same for all programs, and no operator sets it."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def is_agent_running(folder: Path) -> bool:
    """Whether somebody holds the host's lock: the kernel lets go of it however an agent ends."""
    try:
        with open(folder / LOCK) as file:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False


def silent_for_s(folder: Path) -> float | None:
    """Seconds since the agent's last heartbeat of this boot, or None if there was none. Only the
    agent's user writes it, while whoever can open the lock can hold it."""
    try:
        beat_s = float((folder / BEAT).read_text())
    except (OSError, ValueError):
        return None
    silent_s = boot_clock_s() - beat_s
    return silent_s if silent_s >= 0 else None


def write_load(folder: Path, load: Load) -> None:
    """Raises OSError; what stood there before is then still whole."""
    new = folder / f"{LOAD}.new"
    new.unlink(missing_ok=True)  # of an agent that was killed, perhaps as another user
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    with open(fd, "wb") as file:
        os.fchmod(fd, 0o644)  # whatever the umask: nova-compute is another user
        file.write(json.dumps({"v": _VERSION, **asdict(load)}).encode())
    os.replace(new, folder / LOAD)


def forget_load(folder: Path) -> None:
    (folder / LOAD).unlink(missing_ok=True)


def read_load(folder: Path) -> Load:
    """Numbers with nodes, and fresh. Raises NoLoad; never waits."""
    path = folder / LOAD
    try:
        load = _load(json.loads(_text(path)))
    except FileNotFoundError:
        raise NoLoad(f"no agent tells the memory's load in {path}: is vp-agent running?") from None
    except OSError as exc:
        raise NoLoad(f"{path}: {exc.strerror}: may this user read it?") from exc
    except _NO_LOAD as exc:
        raise NoLoad(f"{path} is not what this version understands: {exc}") from exc
    if not 0 <= load.age_s <= STALE_AFTER_S:
        raise NoLoad(f"what {path} says is {load.age_s:.0f} s old: see `vp-agent status`")
    if load.problem:
        raise NoLoad(load.problem)
    return load


def _text(path: Path) -> bytes:
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as file:
        return file.read(MAX_LOAD_BYTES)


def _load(row: Any) -> Load:
    """Raises one of _NO_LOAD."""
    if row["v"] != _VERSION:
        raise ValueError(f"version {row['v']!r}")
    nodes = tuple(
        NodeLoad(int(one["node"]), _number(one["bytes_per_s"]), _limit(one["limit_bytes_per_s"]))
        for one in row["nodes"]
    )
    if not (nodes or row["problem"]):
        raise ValueError("neither nodes nor a problem")
    return Load(_number(row["at_s"]), str(row["source"]), str(row["problem"]), nodes)


def _limit(value: Any) -> float | None:
    return None if value is None else _number(value)


def _number(value: Any) -> float:
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise ValueError(f"{number} is no measurement")
    return number
