# SPDX-License-Identifier: Apache-2.0
"""What outlives one run of the agent: epoch, mode, limits, profiles, what misses cost, what
controllers keep, usage, escalations, overrides, overlays, modes of the cloud, facts of Nova.

Small files in the state folder, each replaced whole (write, fsync, rename), so that a full disk, a
kill or a loss of power leaves the old one or the new one. What cannot be read is said; what it is
taken for is up to who uses it.
"""

import contextlib
import fcntl
import json
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from nova_vp import wire
from nova_vp.cloud_modes import NOT_SET
from nova_vp.core.types.policy import Mode, known_mode
from nova_vp.core.types.sample import NO_MISS_COST, MissCost, Profile
from nova_vp.core.types.state import CoreState
from nova_vp.printable import fault, printable
from nova_vp.recording.codec import Malformed
from vp_agent.calibration.record import Calibration, as_json, from_json
from vp_agent.loop import kept_miss_costs, kept_profiles, kept_states

LOG = logging.getLogger(__name__)

_MOST_TOLD = 20
_MOST_EPOCHS = 16
"""More starts in a row without one tick are not expected."""
_MALFORMED = (
    Malformed,
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""What decoding a file raises that is not what we wrote."""

Kept = TypeVar("Kept")


class StateFolder:
    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)

    def last_epoch(self) -> int:
        """The epoch of the run before; 0 if there was none, or none that a message can carry."""
        return next(iter(self.epochs()), 0)

    def epochs(self) -> tuple[int, ...]:
        """Of the runs before on this host, the last one first. A run that was killed before it
        could give anything back leaves what runs before it had set."""
        try:
            epochs = [int(word) for word in (self._read("epoch") or "").split()]
        except ValueError:
            return ()
        return tuple(epoch for epoch in epochs if 0 < epoch < wire.MOST_COUNT)

    def next_epoch(self) -> int:
        """Larger than that of any run before, even where the clock jumped back."""
        before = self.epochs()
        epoch = max(int(time.time() * 1000), self.last_epoch() + 1)
        try:
            self._write("epoch", _as_words((epoch, *before)[:_MOST_EPOCHS]))
        except OSError as exc:
            # Who is kept from starting reverts nothing: rather an epoch that the next run may not
            # know. It tells by it what this run wrote.
            if not self._overwrite("epoch", _as_words((epoch, *before[:-1]))):
                LOG.error(
                    "epoch not saved, the next run takes this one's changes for another host's: "
                    "%s. Free space in %s",
                    exc,
                    self._folder,
                )
        return epoch

    def mode(self, default: Mode | None) -> Mode | None:
        """Of this host; None: it has none of its own. `default`: if none was ever set here."""
        text = self._read("mode")
        if text is None:
            return default
        if text.strip() == NOT_SET:
            return None
        mode = known_mode(text.strip())
        if mode.value != text.strip():
            told = printable(text.strip(), _MOST_TOLD)
            LOG.warning("%s: unknown mode %s, using %s", self._folder / "mode", told, mode.value)
        return mode

    def set_mode(self, mode: Mode | None) -> None:
        self._write("mode", mode.value if mode else NOT_SET)

    def modes(self) -> str | None:
        """The text of `set_modes`; what it means is for `host_mode`."""
        return self._read("modes.json")

    def set_modes(self, text: str) -> None:
        """Raises OSError."""
        self._write("modes.json", text)

    def remembered(self, now_s: float) -> CoreState:
        """What was learned in runs before. `now_s`: seconds since 1970."""
        return CoreState(
            profiles=self.profiles(),
            miss_costs=self.miss_costs(now_s),
            controllers=self.controllers(),
        )

    def profiles(self) -> dict[str, Profile]:
        return self._kept("profiles.json", kept_profiles.from_text, "starting without") or {}

    def set_profiles(self, profiles: Mapping[str, Profile]) -> None:
        """Raises OSError, as all that follow."""
        self._write("profiles.json", kept_profiles.as_text(profiles))

    def miss_costs(self, now_s: float) -> dict[str, MissCost]:
        """`now_s`: seconds since 1970. What was learned long ago counts less."""
        decode = partial(kept_miss_costs.from_text, now_s=now_s)
        return self._kept("miss_costs.json", decode, "what misses cost is learned anew") or {}

    def set_miss_costs(self, costs: Mapping[str, MissCost], now_s: float) -> None:
        self._write("miss_costs.json", kept_miss_costs.as_text(costs, now_s))

    def controllers(self) -> dict[str, Any]:
        """What controllers keep, by name, of those that are installed."""
        return self._kept("controllers.json", kept_states.from_text, "controllers begin anew") or {}

    def set_controllers(self, text: str) -> None:
        """The text of `kept_states.as_text`."""
        self._write("controllers.json", text)

    def calibration(self) -> Calibration | None:
        """What `vp-agent calibrate` found on this host, if it was run."""
        found = self._kept(
            "limits.json",
            lambda text: from_json(json.loads(text)),
            "run `vp-agent calibrate` again",
        )
        if found is None:
            return None
        if found.is_of_earlier_release:
            LOG.warning(
                "%s was measured by an earlier release, without latency curves. It is used as it "
                "is; run `vp-agent calibrate` again, since the next release does not read it",
                self._folder / "limits.json",
            )
        return found

    def set_calibration(self, calibration: Calibration) -> None:
        """Raises OSError."""
        self._write("limits.json", json.dumps(as_json(calibration)))

    def has_calibration(self) -> bool:
        """Whether there is a file, readable or not."""
        return (self._folder / "limits.json").exists()

    @contextlib.contextmanager
    def alone(self) -> Iterator[bool]:
        """Whether nobody else does meanwhile what one process may do at a time. The kernel lets go
        however the process ends, and no file is left."""
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
        finally:
            os.close(folder)

    def check_writable(self) -> None:
        """Raises OSError, for who works long before there is something to write."""
        self._write("writable", "")
        (self._folder / "writable").unlink()

    def escalations(self) -> str | None:
        """The text of `set_escalations`; what it means is `outbox`'s."""
        return self._read("escalations.json")

    def set_escalations(self, text: str) -> None:
        """Raises OSError."""
        self._write("escalations.json", text)

    def usage(self) -> str | None:
        """The text of `set_usage`; what it means is `usage_log`'s."""
        return self._read("usage.json")

    def set_usage(self, text: str) -> None:
        """Raises OSError."""
        self._write("usage.json", text)

    def message(self, name: str) -> str | None:
        """The text of `set_message`; what it means is for `overrides` and `host_overlays`."""
        return self._read(name)

    def set_message(self, name: str, text: str) -> None:
        """Raises OSError."""
        self._write(name, text)

    def facts(self) -> str | None:
        """The text of `set_facts`; what it means is for `told_facts`."""
        return self._read("facts.json")

    def set_facts(self, text: str) -> None:
        """Raises OSError."""
        self._write("facts.json", text)

    def _kept(self, name: str, decode: Callable[[str], Kept], then: str) -> Kept | None:
        """What an earlier run wrote there; None: it wrote nothing, or what cannot be read. `then`:
        what follows from that."""
        text = self._read(name)
        if text is None:
            return None
        try:
            return decode(text)
        except _MALFORMED as exc:
            LOG.warning("%s is not readable (%s): %s", self._folder / name, fault(exc), then)
            return None

    def _read(self, name: str) -> str | None:
        """None: there is none. Empty, as no file of ours is: it cannot be read, which is not the
        same: what it held may have been tighter than what holds without it."""
        try:
            return (self._folder / name).read_text()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as exc:
            LOG.warning("%s: %s", self._folder / name, exc)
            return ""

    def _write(self, name: str, text: str) -> None:
        """Raises OSError where the disk refuses; the old file is then still whole, and what was
        written of the new one gone: it may be what fills the disk."""
        path = self._folder / name
        new = path.with_suffix(".new")
        try:
            with open(new, "w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            os.replace(new, path)
            self._sync_names()
        except OSError:
            with contextlib.suppress(OSError):
                new.unlink()
            raise

    def _overwrite(self, name: str, text: str) -> bool:
        """In place, which a full disk lets us where as much stood there before. Whether it does."""
        try:
            fd = os.open(self._folder / name, os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            if os.fstat(fd).st_size != len(text):
                return False
            os.pwrite(fd, text.encode(), 0)
            os.fsync(fd)
        except OSError:
            return False
        finally:
            os.close(fd)
        return True

    def _sync_names(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


class StateKeeper:
    """Writes down now and then, and at the end, what was learned of each server, its undisturbed
    profile and what misses cost it, and what controllers keep of theirs."""

    EVERY_S = 10.0
    MISS_COSTS_EVERY_S = 60.0
    """They change slowly."""

    def __init__(self, state: StateFolder) -> None:
        self._state = state
        self._kept_at_s: float | None = None
        self._miss_costs_kept_at_s: float | None = None
        self._states = kept_states.as_text({})
        self._is_failing = False

    def keep(self, state: CoreState, now_s: float) -> None:
        if _is_due(self._kept_at_s, now_s, self.EVERY_S):
            self._kept_at_s = now_s
            has_costs = _is_due(self._miss_costs_kept_at_s, now_s, self.MISS_COSTS_EVERY_S)
            if has_costs:
                self._miss_costs_kept_at_s = now_s
            self._save(state, has_costs)

    def save(self, state: CoreState) -> None:
        """Never raises: a full disk costs the memory of a restart, not the tick."""
        self._save(state, True)

    def _save(self, state: CoreState, has_costs: bool) -> None:
        # Who was not measured yet is still what it was before this run.
        known = {**state.profiles, **state.undisturbed}
        here = {uuid: profile for uuid, profile in known.items() if uuid in state.vps}
        states = kept_states.as_text(state.controllers)
        try:
            self._state.set_profiles(here)
            if has_costs:
                self._state.set_miss_costs(_miss_costs(state), time.time())
            if states != self._states:
                self._state.set_controllers(states)
                self._states = states
            self._is_failing = False
        except OSError as exc:
            if not self._is_failing:
                LOG.warning("state is not saved until this is corrected: %s", exc)
            self._is_failing = True


def _miss_costs(state: CoreState) -> dict[str, MissCost]:
    known = ((uuid, vp.miss_cost) for uuid, vp in state.vps.items())
    return {uuid: cost for uuid, cost in known if cost != NO_MISS_COST}


def _is_due(kept_at_s: float | None, now_s: float, every_s: float) -> bool:
    return kept_at_s is None or now_s - kept_at_s >= every_s


def _as_words(numbers: Iterable[int]) -> str:
    return " ".join(map(str, numbers))
