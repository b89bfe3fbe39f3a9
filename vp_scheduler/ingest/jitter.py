# SPDX-License-Identifier: Apache-2.0
"""How fast a cloud may be heard when it is asked for news: the more hosts, the longer they take.

Each host answers at a random moment of the span that the asker names, since no host knows how many
others there are.
"""

UNKNOWN_HOSTS = 10_000
"""Where nobody can say how many there are: as many as all this is made for."""
LEAST_S, MOST_S = 5.0, 60.0
"""After the latter every host has spoken unasked."""

REPORTS_PER_S = 200.0
"""What one vp-scheduler bears: more would overrun its queue, and be lost."""
DIGESTS_PER_S = 400.0
"""Each goes to every scheduler process: at 24 of them the broker hands out 9600 a second."""


def spread_s(hosts: int, per_s: float) -> float:
    return min(max(LEAST_S, hosts / per_s), MOST_S)
