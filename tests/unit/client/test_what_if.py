# SPDX-License-Identifier: Apache-2.0
"""`openstack vp what-if` and the map of LLC domains against the real application."""

import pytest

from tests.unit.api import cloud
from vp_client.client import WhatIfAnswer
from vp_client.errors import NoSuchFlavor
from vp_client.host_formatters import by_what_is_lost, what_if_newcomer


def test_of_a_server(lab):
    ran = lab.run("vp what-if --server noisy")
    assert ran.rc == 0, ran.err
    assert max(map(len, ran.out.splitlines())) <= 100
    assert "lab-1 yes ? ? - - runs-here" in ran.words
    assert "lab-2 yes ? ? - - unknown" in ran.words
    assert "Its state is 7 terrier, mf>0.6, as measured while no neighbour degraded it" in ran.err
    rows = lab.run("vp what-if --server sleeper -f json").json
    assert rows[0]["Host"] == "lab-1"
    assert (rows[0]["It loses"], rows[0]["Others lose"]) == (0.02, 0.08)
    assert (rows[0]["Most by"], rows[0]["Accepted"]) == ("cache", True)
    assert len(lab.run("vp what-if --server sleeper --limit 1 -f json").json) == 1


def test_of_a_flavor(lab):
    """It asks for a strict place, and is taken for what it says."""
    for flavor in ("vp.strict", "7"):
        ran = lab.run(f"vp what-if --flavor {flavor} -f json")
        assert ran.rc == 0, ran.err
        refused = next(row for row in ran.json if row["Host"] == "lab-1")
        assert (refused["Accepted"], refused["Why"]) == (False, "strict-loss-too-large")
        assert refused["It loses"] > 0.05, "its two vCPUs find one free CPU and a half"


def test_of_a_flavor_that_nova_does_not_know(lab):
    ran = lab.run("vp what-if --flavor nothing")
    assert ran.rc == 1
    assert "Nova returned no flavor 'nothing'" in ran.err
    assert "openstack flavor list" in str(NoSuchFlavor("x"))


@pytest.mark.parametrize("options", ["", "--server a --flavor b"])
def test_one_of_them_has_to_be_given(lab, options):
    assert lab.run(f"vp what-if {options}").rc == 2


@pytest.mark.parametrize("limit", ["-1", "0", "many"])
def test_a_limit_is_a_number_of_rows(lab, limit):
    assert lab.run(f"vp what-if --server sleeper --limit {limit}").rc == 2


def test_an_image_is_of_a_new_server(lab):
    ran = lab.run("vp what-if --server sleeper --image abc")
    assert ran.rc == 1
    assert "Give --image with --flavor" in ran.err


def test_a_source_of_a_later_api_is_named():
    told = {"state": None, "source": "server-group", "isolation": "soft"}
    assert what_if_newcomer(told) == "Its state is unknown, server-group; its isolation is soft."


@pytest.mark.parametrize(
    ("isolation", "order"),
    [
        ("soft", ["calm", "loud", "unknown", "refused"]),
        ("none", ["loud", "calm", "unknown", "refused"]),
    ],
)
def test_hosts_that_accept_it_come_first_then_those_where_least_is_lost(isolation, order):
    """Without isolation only others matter, as for the weigher."""

    def a_host(host, is_accepted, *ratios):
        names = ("newcomer_ratio", "resident_ratio")
        return {"host": host, "is_accepted": is_accepted, **dict(zip(names, ratios, strict=True))}

    hosts = [
        a_host("refused", False, 0.0, 0.06),
        a_host("unknown", True, None, None),
        a_host("loud", True, 0.5, 0.0),
        a_host("calm", True, 0.01, 0.02),
    ]
    ranked = by_what_is_lost(WhatIfAnswer({"isolation": isolation}, hosts))
    assert [one["host"] for one in ranked] == order


def test_llc_domains_of_hosts(lab):
    table = lab.run("vp host list --long")
    assert max(map(len, table.out.splitlines())) <= 100
    assert "0: 2 servers, 1 degraded, 1 x 8" in table.out
    assert "0: 3 M/s, hot" in table.words
    [host, _] = lab.run("vp host list --long -f json").json
    assert host["LLC domains"][1]["id"] == 1


def test_no_tenant_may(lab):
    assert lab.run(f"vp what-if --server {cloud.VICTIM}", user="member").rc == 1
