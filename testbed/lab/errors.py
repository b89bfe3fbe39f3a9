# SPDX-License-Identifier: Apache-2.0
"""The one error the lab raises for people: what is wrong, what to do, which log tells more."""

from pathlib import Path

TAIL_LINES = 20


class LabError(Exception):
    def __init__(self, message: str, log: Path | None = None) -> None:
        super().__init__(message)
        self.log = log

    def explain(self) -> str:
        if self.log is None or not self.log.exists():
            return str(self)
        tail = self.log.read_text(errors="replace").splitlines()[-TAIL_LINES:]
        return "\n".join([f"{self}; see {self.log}, which ends with:", *(f"    {t}" for t in tail)])
