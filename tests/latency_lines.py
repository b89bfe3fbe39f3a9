# SPDX-License-Identifier: Apache-2.0
"""Lines of `[agent] latency_sources` as sources, for tests."""

from vp_agent.latency.base import Asked, LatencySource
from vp_agent.latency.poller import open_sources

SERVER = "11111111-2222-4333-8444-000000000001"
P95 = Asked(95.0, 10.0)


def source(line: str) -> LatencySource:
    return open_sources([f"server={SERVER} {line}"])[SERVER]
