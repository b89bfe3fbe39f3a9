# SPDX-License-Identifier: Apache-2.0
import pytest

from vp_dashboard import heat
from vp_dashboard.heat import Level


def a_domain(number=0, node=0, servers=4, degraded=0):
    return {"id": number, "node": node, "servers_count": servers, "hurt_count": degraded}


def a_host(*domains, hot=()):
    return {
        "name": "vp1",
        "domains": list(domains),
        "nodes": [{"node": node, "is_hot": True} for node in hot],
    }


@pytest.mark.parametrize(
    ("servers", "degraded", "level"),
    [
        (0, 0, Level.EMPTY),
        (4, 0, Level.CALM),
        (5, 1, Level.FEW),
        (4, 1, Level.SOME),
        (5, 2, Level.SOME),
        (4, 2, Level.MANY),
        (1, 1, Level.MANY),
    ],
)
def test_levels(servers, degraded, level):
    assert heat.level_of(a_domain(servers=servers, degraded=degraded)) is level


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
