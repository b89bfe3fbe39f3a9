# SPDX-License-Identifier: Apache-2.0
"""Texts of the command line as a page shows them: lines as wide as the page, times to be read by
people. Pure."""

import re

from nova_vp import action_results
from nova_vp.cli import labels

_CONTINUED = re.compile(r"\n {2,}")
_TIME = re.compile(r"\b(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(?::00|(:\d\d))(?:\.\d+)?Z")
RESULTS = {
    action_results.PROPOSED: "it waits for an operator",
    action_results.WITHDRAWN: "the agent does not propose it any more",
}
"""Of actions, beside those that agents tell."""


def readable(text: str) -> str:
    """Without the line ends that fit it into a terminal; times as `2026-01-02 03:04:05 UTC`."""
    return _TIME.sub(_time, _CONTINUED.sub(" ", text))


def _time(found: re.Match[str]) -> str:
    return f"{found[1]} {found[2]}{found[3] or ''} UTC"


def result(code: str) -> str:
    """Of an action: whether it helped, as far as that is known."""
    return RESULTS.get(code) or labels.result(code)


def span(hours: int) -> str:
    """That a page shows."""
    if hours > 24:
        return f"{hours // 24} days"
    return "1 hour" if hours == 1 else f"{hours} hours"


def memory(kib: int) -> str:
    mib = kib / 1024
    return f"{mib:.3g} MiB" if mib < 1024 else f"{mib / 1024:.3g} GiB"
