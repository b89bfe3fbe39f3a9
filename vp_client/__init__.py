# SPDX-License-Identifier: Apache-2.0
"""`openstack vp …` and the REST client below it. Commands show what the API answers, no more:
tenant and operator see different rows because the API gives them different keys.

For applications: `vp_client.report_latency` (`latency.py`), `vp_client.Overlay` (`overlay.py`) and
`vp_client.RequestMonitor` and `vp_client.make_calls` (`request_monitor.py`).
"""

import importlib
from typing import Any

_FOR_APPLICATIONS = {
    "report_latency": "latency",
    "Overlay": "overlay",
    "RequestMonitor": "request_monitor",
    "make_calls": "request_monitor",
}


def __getattr__(name: str) -> Any:
    """When it is first used: the shell has no need of it, and imports this package."""
    if name not in _FOR_APPLICATIONS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"vp_client.{_FOR_APPLICATIONS[name]}"), name)
