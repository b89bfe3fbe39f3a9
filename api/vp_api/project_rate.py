# SPDX-License-Identifier: Apache-2.0
"""So many requests of a project in a second, as one vp-api process counts them. In memory."""

import math
import threading
from collections import OrderedDict
from typing import NamedTuple

REMEMBERED_S = 60.0
"""By then every project has its whole allowance again."""


class TooMany(Exception):
    """The text says of what. `wait_s`: whole seconds until another one is taken."""

    def __init__(self, what: str, wait_s: float) -> None:
        super().__init__(what)
        self.wait_s = max(1, math.ceil(wait_s))


class _Bucket(NamedTuple):
    tokens: float
    at_s: float


class ProjectRate:
    """Thread-safe."""

    def __init__(self, what: str, option: str) -> None:
        """`what` is counted, in the plural; `option`: by which it is limited."""
        self._what = what
        self._option = option
        self._lock = threading.Lock()
        self._projects: OrderedDict[str, _Bucket] = OrderedDict()
        """The one that waited longest first."""

    def count(self, project_id: str, now_s: float, most_per_s: int) -> None:
        """One request of the project, whatever it says. Raises TooMany."""
        with self._lock:
            self._forget(now_s)
            full = float(most_per_s)
            bucket = self._projects.get(project_id, _Bucket(full, now_s))
            passed_s = max(0.0, now_s - bucket.at_s)
            tokens = min(full, bucket.tokens + passed_s * most_per_s)
            if tokens < 1:
                raise TooMany(
                    f"Your project sent more than {most_per_s} {self._what} within a second. Your "
                    f"operator can raise this limit ([vp_api] {self._option}).",
                    1.0,
                )
            self._projects[project_id] = _Bucket(tokens - 1, now_s)
            self._projects.move_to_end(project_id)

    def _forget(self, now_s: float) -> None:
        known = self._projects
        while known and abs(now_s - next(iter(known.values())).at_s) > REMEMBERED_S:
            known.popitem(last=False)
