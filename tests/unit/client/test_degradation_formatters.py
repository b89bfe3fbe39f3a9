# SPDX-License-Identifier: Apache-2.0
"""How much a server loses, in words: exactly to operators, coarsely to tenants."""

import pytest

from vp_client import degradation_formatters as formatters

SINCE = "2026-01-02T14:10:00Z"


def a_vp(degradation, hurt=True):
    return {"hurt_by_neighbour": hurt, "degradation": degradation}


def exact(ratio, kind="cache", response="acting"):
    return {"ratio": ratio, "kind": kind, "since": SINCE, "response": response}


def coarse(percent, response="acting"):
    return {"percent": percent, "since": SINCE, "response": response}


WELL = {"ratio": 0.0, "kind": None, "since": None, "response": None}
TENANT_WELL = {"percent": 0, "since": None, "response": None}


@pytest.mark.parametrize(
    ("vp", "column", "value"),
    [
        (a_vp(exact(0.213)), "21.3% cache", 0.213),
        (a_vp(exact(None)), "yes", None),
        (a_vp(WELL, hurt=False), "no", 0.0),
        (a_vp(coarse(20)), "about 20%", 0.2),
        (a_vp(coarse(None)), "yes", None),
        (a_vp(TENANT_WELL, hurt=False), "no", 0),
        (a_vp(None, hurt=None), "?", None),
    ],
)
def test_in_a_column_and_for_machines(vp, column, value):
    assert (formatters.listed(vp), formatters.value(vp)) == (column, value)


def test_in_a_table_of_many_columns_without_the_resource():
    assert formatters.listed(a_vp(exact(0.213)), is_brief=True) == "21.3%"
    assert formatters.listed(a_vp(coarse(20)), is_brief=True) == "about 20%"


@pytest.mark.parametrize(
    ("vp", "sentence"),
    [
        (a_vp(coarse(20)), f"loses about 20% to a neighbour since {SINCE}; nova-vp is acting"),
        (
            a_vp(exact(0.1, "host-cpu", "none"), hurt=False),
            f"loses 10% since {SINCE}; nova-vp does nothing about it now",
        ),
        (
            a_vp(coarse(None, "proposed")),
            f"loses an unknown part of its performance to a neighbour since {SINCE}; an action "
            "waits until an operator accepts it",
        ),
        (a_vp(coarse(10, "other")), f"loses about 10% to a neighbour since {SINCE}; other"),
        (a_vp(TENANT_WELL, hurt=False), "loses nothing to others"),
        (
            a_vp(exact(0.1, response="escalated")),
            f"loses 10% to a neighbour since {SINCE}; no action on its host helps, so the cluster "
            "was asked",
        ),
        (a_vp(None, hurt=None), "not known now: it is not measured now"),
        ({**a_vp(None, hurt=None), "is_stale": True}, "not known now: its host does not report"),
        ({**a_vp(None, hurt=None), "incomplete": "idle"}, "not known now: it is idle"),
        (a_vp(None, hurt=True), "degraded by a neighbour: yes"),
    ],
)
def test_in_a_sentence(vp, sentence):
    assert formatters.sentence(vp) == sentence


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"overrides": {"opt_out": True}, "mode": {"mode": "observe"}}, "help for it was refused"),
        ({"overrides": {"opt_out": False}, "mode": {"mode": "observe"}}, "it is in mode observe"),
    ],
)
def test_why_nothing_is_done(told, why):
    vp = {**a_vp(exact(0.1, response="none")), **told}
    assert formatters.sentence(vp).endswith(f"nova-vp does nothing about it now, because {why}")
    acting = {**a_vp(exact(0.1)), **told}
    assert formatters.sentence(acting).endswith("; nova-vp is acting")


@pytest.mark.parametrize(
    ("told", "text"),
    [
        (exact(0.213), f"21.3% by cache, since {SINCE}: nova-vp is acting"),
        (coarse(20), f"about 20%, since {SINCE}: nova-vp is acting"),
        (exact(None), f"unknown by cache, since {SINCE}: nova-vp is acting"),
        (WELL, "none"),
        (None, "unknown"),
    ],
)
def test_in_a_table_of_one_server(told, text):
    assert formatters.shown(told) == text


@pytest.mark.parametrize(
    ("row", "text", "value"),
    [
        ({"kind": "cache", "degradation_ratio": 0.25}, "25% cache", 0.25),
        ({"kind": "cache", "degradation_ratio": None}, "cache", None),
        ({"kind": None, "degradation_ratio": 0.0}, "no", 0.0),
        ({"degradation_percent": 20}, "about 20%", 0.2),
        ({"degradation_percent": None}, "no", None),
    ],
)
def test_of_a_minute(row, text, value):
    told = {"hurt_by_neighbour": False, **row}
    assert (formatters.recorded_text(told), formatters.recorded(told)) == (text, value)


def test_how_much_is_a_sentence_of_its_own_where_it_is_known():
    assert list(formatters.loss(a_vp(coarse(20)))) == ["It loses about 20% of its performance."]
    assert list(formatters.loss(a_vp(coarse(None)))) == []
    assert list(formatters.loss(a_vp(WELL))) == []


@pytest.mark.parametrize(
    ("vp", "told"),
    [
        (a_vp(exact(0.213)), ["degraded by a neighbour", "loses 21.3% by cache"]),
        (a_vp(exact(None)), ["degraded by a neighbour"]),
        (a_vp(exact(0.1, "host-cpu"), hurt=False), ["loses 10% by host"]),
        (a_vp(WELL, hurt=False), []),
        (a_vp(None, hurt=None), []),
        ({"hurt_by_neighbour": True}, ["degraded by a neighbour"]),
    ],
)
def test_of_a_server_among_others_of_its_host(vp, told):
    assert list(formatters.on_host(vp)) == told


def test_what_is_done_in_a_column():
    assert formatters.short_response("escalated") == "the cluster was asked"
    assert [formatters.short_response(one) for one in (None, "", "other")] == ["-", "-", "other"]
