# SPDX-License-Identifier: Apache-2.0
"""A real terminal of a given size, by tmux: what a person would see, and keys to press.

Each has a tmux server of its own, so that nothing of whoever runs the tests is used or changed.
"""

import os
import re
import shlex
import shutil
import subprocess
import time
import uuid as uuids
from collections.abc import Callable, Sequence
from pathlib import Path

from tests.waiting import wait_until

ENDED = "the command has ended"
SHOWN_WITHIN_S = 60.0
"""On a loaded machine guests get little time, and what is to be shown comes and goes."""


def missing_for_terminal() -> str | None:
    """Why there can be no terminal here, or None."""
    return None if shutil.which("tmux") else "tmux is not installed (tools/install-debian-packages)"


class Terminal:
    def __init__(self, command: Sequence[str | Path], columns: int = 100, rows: int = 30) -> None:
        self._tmux = ["tmux", "-L", f"vp-test-{uuids.uuid4().hex[:12]}", "-f", "/dev/null"]
        # Ctrl-C is for the command alone.
        typed = f"trap : INT; {shlex.join(map(str, command))}; echo {shlex.quote(ENDED)}: $?; cat"
        size = ["-x", str(columns), "-y", str(rows)]
        self._run("new-session", "-d", *size, "sh", "-c", typed)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run([*self._tmux, "kill-server"], capture_output=True)

    def screen(self) -> str:
        return self._run("capture-pane", "-p")

    def press(self, *keys: str) -> None:
        """As tmux names them: `q`, `C-c`."""
        self._run("send-keys", *keys)

    def wait_for(self, text: str) -> str:
        """The first screen that shows it."""
        return self._wait(lambda screen: text in screen, repr(text))

    def wait_for_line(self, *words: str) -> str:
        """The first screen with a line that has all these words, in this order."""
        pattern = re.compile(r"\b.*\b".join(map(re.escape, words)))
        return self._wait(lambda screen: pattern.search(screen) is not None, " … ".join(words))

    def _wait(self, accept: Callable[[str], bool], what: str) -> str:
        seen = [""]

        def shows() -> bool:
            seen[0] = self.screen()
            return accept(seen[0])

        try:
            wait_until(shows, f"{what} on the screen", SHOWN_WITHIN_S)
        except AssertionError as exc:
            at = time.strftime("%H:%M:%S")
            raise AssertionError(f"{exc}; at {at} it shows:\n{seen[0]}") from None
        return seen[0]

    def _run(self, *words: str) -> str:
        plain = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "HOME": "/nonexistent"}
        done = subprocess.run(
            [*self._tmux, *words], env=plain, check=True, capture_output=True, text=True
        )
        return done.stdout
