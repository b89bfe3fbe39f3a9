# SPDX-License-Identifier: Apache-2.0
"""What outlives one run of the agent: epoch, mode and the undisturbed profiles.

Three small files in the state folder, each replaced whole (write, fsync, rename), so that a full
disk or a kill leaves the old one. What cannot be read is treated as absent, and said.
"""

import contextlib
import json
import logging
import math
import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nova_vp.core.model import Mode, Profile, Sensitivity, State

LOG = logging.getLogger(__name__)

MAX_EPOCH = 2**53
"""`nova_vp.wire` accepts no larger number."""
_NO_PROFILES = (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError)


class StateFolder:
    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)

    def last_epoch(self) -> int:
        """The epoch of the run before; 0 if there was none, or none that a message can carry."""
        try:
            epoch = int(self._read("epoch") or 0)
        except ValueError:
            return 0
        return epoch if 0 <= epoch < MAX_EPOCH else 0

    def next_epoch(self) -> int:
        """Larger than that of any run before, even where the clock jumped back."""
        epoch = max(int(time.time() * 1000), self.last_epoch() + 1)
        self._write("epoch", str(epoch))
        return epoch

    def mode(self, default: Mode) -> Mode:
        text = (self._read("mode") or default.value).strip()
        try:
            return Mode(text)
        except ValueError:
            LOG.warning("%s: unknown mode %r, using %s", self._folder / "mode", text, default.value)
            return default

    def set_mode(self, mode: Mode) -> None:
        self._write("mode", mode.value)

    def profiles(self) -> dict[str, Profile]:
        text = self._read("profiles.json")
        if text is None:
            return {}
        try:
            return {uuid: _profile(row) for uuid, row in json.loads(text).items()}
        except _NO_PROFILES as exc:
            LOG.warning("profiles.json is not readable (%s): starting without", exc)
            return {}

    def set_profiles(self, profiles: Mapping[str, Profile]) -> None:
        rows = {uuid: _row(profile) for uuid, profile in profiles.items()}
        self._write("profiles.json", json.dumps(rows))

    def _read(self, name: str) -> str | None:
        try:
            return (self._folder / name).read_text()
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as exc:
            LOG.warning("%s: %s", self._folder / name, exc)
            return None

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
        except OSError:
            with contextlib.suppress(OSError):
                new.unlink()
            raise


def _row(profile: Profile) -> dict[str, object]:
    return {
        **profile._asdict(),
        "state": profile.state.number,
        "sensitivity": profile.sensitivity._asdict(),
        # Most of the file; digits behind the point would triple it.
        "pressures": {uuid: round(per_s) for uuid, per_s in profile.pressures.items()},
    }


def _profile(row: Mapping[str, Any]) -> Profile:
    """Raises one of _NO_PROFILES."""
    values = dict(row)
    return Profile(
        state=State.from_number(int(_finite(values.pop("state")))),
        sensitivity=Sensitivity(**values.pop("sensitivity")),
        pressures={uuid: _finite(per_s) for uuid, per_s in values.pop("pressures").items()},
        **{name: _finite(value) for name, value in values.items()},
    )


def _finite(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{number} is no measurement")
    return number


class ProfileKeeper:
    """Writes the undisturbed profiles down now and then, and only when they say something new."""

    EVERY_S = 10.0

    def __init__(self, state: StateFolder) -> None:
        self._state = state
        self._kept_at_s: float | None = None
        self._is_failing = False

    def keep(self, profiles: Mapping[str, Profile], now_s: float) -> None:
        """Never raises: a full disk costs the memory of a restart, not the tick."""
        if self._kept_at_s is not None and now_s - self._kept_at_s < self.EVERY_S:
            return
        self._kept_at_s = now_s
        try:
            self._state.set_profiles(profiles)
            self._is_failing = False
        except OSError as exc:
            if not self._is_failing:
                LOG.warning("profiles are not saved until this is mended: %s", exc)
            self._is_failing = True
