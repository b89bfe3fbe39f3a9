# SPDX-License-Identifier: Apache-2.0
"""Guest rates for assertions: medians of windows in which the machine kept the modelled pace."""

from statistics import median

from testbed.lab import cloud
from testbed.lab.lag_meter import MAX_RATIO, LagMeter
from testbed.lab.monitor import LabMonitor

WINDOW_LINES = 5
WINDOW_S = 6.0
DEADLINE_S = 120.0


class Rates:
    def __init__(self, host: str, instance: str = "") -> None:
        """Of all guests of the host the pace counts, or of one alone."""
        self._watch = LabMonitor(host)
        self._debt = LagMeter(host, instance)

    def follow(self, name: str, server_id: str) -> None:
        self._watch.add(name, server_id)

    def kind(self, name: str) -> str:
        return self._watch.servers[name].console.rates[-1].kind

    def wait_for_kind(self, name: str, kind: str) -> None:
        cloud.wait_for(
            lambda: any(r.kind == kind for r in self._watch.servers[name].console.rates),
            f"{name} to run {kind}",
            deadline_s=DEADLINE_S,
        )

    def wait_for_lines(self, name: str, count: int) -> None:
        """That many more reports: about as many seconds of the guest's life."""
        rates = self._watch.servers[name].console.rates
        enough = len(rates) + count
        cloud.wait_for(lambda: len(rates) >= enough, f"{name} to report", deadline_s=DEADLINE_S)

    def steady(self, name: str, kind: str) -> float:
        """The median rate of the next window without pace debt."""

        def window() -> float | None:
            self.wait_for_lines(name, WINDOW_LINES + 2)
            last = self._watch.servers[name].console.rates[-WINDOW_LINES:]
            is_one_kind = all(rate.kind == kind for rate in last)
            is_paced = self._debt.recent_ratio(WINDOW_S) <= MAX_RATIO
            return median(r.ops for r in last) if is_one_kind and is_paced else None

        what = f"a window of {kind} in which the host keeps the modelled pace"
        return cloud.wait_for(window, what, deadline_s=DEADLINE_S)

    def close(self) -> None:
        self._watch.close()
        self._debt.close()
