# SPDX-License-Identifier: Apache-2.0
"""`openstack vp …` and the REST client below it. Commands show what the API answers, no more:
tenant and operator see different rows because the API gives them different keys.

`vp_client.report_latency` is for applications: see `latency.py`.
"""

from typing import Any


def __getattr__(name: str) -> Any:
    """When it is first used: the shell has no need of it, and imports this package."""
    if name != "report_latency":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from vp_client.latency import report_latency

    return report_latency
