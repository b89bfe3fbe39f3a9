# SPDX-License-Identifier: Apache-2.0
"""Hosts in words, one row each."""

import pytest

from vp_client import host_formatters

ME = {"server_id": "id-1", "name": "me"}
OTHER = {"server_id": "id-2", "name": None}


def a_node(limit=None):
    return {
        "node": 3,
        "misses_per_s": 5e5,
        "mpki": 2.0,
        "limit_misses_per_s": limit,
        "is_hot": False,
    }


def a_cell(**changes):
    numbers = {"cpus": "0-3", "free_cores": 1.5, "vcpus": 4.0, "misses_per_s": 2e6}
    return {"id": 1, "domains": [{"id": 2, **numbers, **changes}]}


@pytest.mark.parametrize(
    ("permits", "told"),
    [
        (None, "2 M misses/s"),
        ({"booked": 0.0, "free": None}, "2 M misses/s"),
        ({"booked": 0.0, "free": 1e5}, "2 M misses/s, permits for 0 misses/ms booked, 100 k free"),
        ({"booked": 900.0, "free": None}, "2 M misses/s, permits for 900 misses/ms booked"),
    ],
)
def test_what_is_booked_and_free(permits, told):
    domain = {"id": 0, "cpus": "0-1", "free_cores": 1.0, "vcpus": 1, "misses_per_s": 2e6}
    if permits:
        domain["llc_permits"] = permits
    text = host_formatters.cells([{"id": 0, "domains": [domain]}])
    assert " ".join(text.split()).endswith(told)


@pytest.mark.parametrize(
    ("told", "expected"),
    [
        (
            host_formatters.contention(
                [{"kind": "cache", "meaning": "why", "servers": [ME, OTHER]}]
            ),
            "cache: why: me, id-2",
        ),
        (
            host_formatters.nodes([a_node()]),
            "node 3: 500 k misses/s, limit not calibrated; summed MPKI 2",
        ),
        (host_formatters.nodes([a_node(4e6)]), "node 3: 500 k misses/s, limit 4 M; summed MPKI 2"),
        (
            host_formatters.cells(
                [a_cell(newcomer_losses={"cache": [0.5, 0.1], "cpu": [0.5, 0.0]})]
            ),
            "NUMA node 1, LLC domain 2: CPUs 0-3, 1.5 cores free, 4 vCPUs, 2 M\n"
            "  misses/s, a newcomer costs at most cache 10%",
        ),
        (
            host_formatters.cells([a_cell(newcomer_losses=None, servers=[ME])]),
            "NUMA node 1, LLC domain 2: CPUs 0-3, 1.5 cores free, 4 vCPUs, 2 M\n  misses/s: me",
        ),
        (host_formatters.steal(None), "unknown"),
        (host_formatters.steal(0.05), "5%"),
    ],
)
def test_words(told, expected):
    assert told == expected
