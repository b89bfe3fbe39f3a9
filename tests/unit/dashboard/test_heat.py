# SPDX-License-Identifier: Apache-2.0
import pytest

from vp_dashboard import heat
from vp_dashboard.heat import Level


def a_domain(number=0, node=0, servers=4, worst=0.0):
    return {"id": number, "node": node, "servers_count": servers, "worst_ratio": worst}


def a_host(*domains, hot=()):
    return {
        "name": "vp1",
        "domains": list(domains),
        "nodes": [{"node": node, "is_hot": True} for node in hot],
    }


@pytest.mark.parametrize(
    ("servers", "worst", "level"),
    [
        (0, None, Level.EMPTY),
        (4, None, Level.UNKNOWN),
        (4, 0.0, Level.CALM),
        (4, 0.019, Level.CALM),
        (4, 0.02, Level.LOW),
        (4, 0.099, Level.LOW),
        (4, 0.1, Level.MEDIUM),
        (4, 0.25, Level.HIGH),
        (1, 1.0, Level.HIGH),
    ],
)
def test_levels(servers, worst, level):
    assert heat.level_of(a_domain(servers=servers, worst=worst)) is level


def test_domains_stand_in_the_column_of_their_node():
    wide = a_host(a_domain(0, 0), a_domain(1, 1), a_domain(2, 1), hot=(1,))
    narrow, silent = a_host(a_domain(0, 0)), a_host()
    assert heat.columns([narrow, wide]) == range(2)
    first, second, third = heat.rows([wide, narrow, silent])
    assert [(n.number, n.is_hot, [d.told["id"] for d in n.domains]) for n in first.nodes] == [
        (0, False, [0]),
        (1, True, [1, 2]),
    ]
    assert (len(first.missing), list(second.missing), list(third.missing)) == (0, [1], [0, 1])


def test_a_page_of_silent_hosts_has_no_columns():
    assert heat.columns([a_host()]) == range(0)
