# SPDX-License-Identifier: Apache-2.0
"""How much a server loses and what is done about it, from a report; and as its history keeps it."""

import pytest

from nova_vp.db.heat import heat_text, read_heat
from nova_vp.db.serialization import METRICS, pack, unpack
from nova_vp.degradation import WELL, Degradation, Response, degradation_of
from tests.messages import AGGRESSOR, VICTIM
from tests.unit.api import cloud

SINCE = cloud.NOW_S - 10


def a_loss(**changes):
    return {"kind": "cache", "since": SINCE, "suspects": [], "refused": [], **changes}


def a_report(vp, **changes):
    return cloud.a_report("lab-1", vps=[vp], **changes)


def found(vp, **changes):
    return degradation_of(report := a_report(vp, **changes), report["vps"][0])


def test_a_server_that_nothing_degrades_loses_nothing():
    assert found(cloud.a_vp()) == WELL


def test_of_a_server_that_was_not_measured_nothing_is_known():
    assert found(cloud.a_vp(state=None)) is None


def test_what_a_server_loses_and_to_what():
    told = found(cloud.a_vp(interference=a_loss(loss_ratio=0.21349)))
    assert told == Degradation(0.213, "cache", int(SINCE), Response.NONE.value)


def test_an_agent_of_the_release_before_does_not_say_how_much():
    told = found(cloud.a_vp(interference=a_loss()))
    assert told == Degradation(None, "cache", int(SINCE), Response.NONE.value)


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ({}, Response.ACTING),
        ({"result": "mended"}, Response.ACTING),
        ({"result": "ineffective"}, Response.NONE),
        ({"result": "failed"}, Response.NONE),
        ({"result": "undone"}, Response.NONE),
        ({"at": SINCE - 1}, Response.NONE),
        ({"victim": AGGRESSOR}, Response.NONE),
        ({"victim": None}, Response.NONE),
    ],
)
def test_an_action_for_it_that_stands_is_one_that_acts(action, expected):
    done = cloud.an_action(**{"at": SINCE + 1, "result": "applied", "victim": VICTIM, **action})
    vp = cloud.a_vp(interference=a_loss(), actions=[done])
    assert found(vp).response == expected.value


def test_what_waits_for_an_operator_is_told_before_what_was_done():
    done = cloud.an_action(at=SINCE + 1, result="applied", victim=VICTIM)
    vp = cloud.a_vp(interference=a_loss(), actions=[done])
    assert found(vp, proposals=[cloud.a_cap(victim=VICTIM)]).response == "proposed"
    assert found(vp, proposals=[cloud.a_cap(victim=AGGRESSOR)]).response == "acting"
    asked = cloud.under_way()["escalations"]
    told = found(vp, proposals=[cloud.a_cap(victim=VICTIM)], escalations=asked)
    assert told.response == "escalated"


def test_a_domain_is_as_bad_as_the_server_that_loses_most_there():
    lost = [
        cloud.a_vp(interference=a_loss(loss_ratio=0.1)),
        cloud.a_vp(uuid=AGGRESSOR, interference=a_loss(loss_ratio=0.3)),
        cloud.a_vp(uuid=cloud.ORPHAN, domains=[1], interference=a_loss()),
    ]
    told = read_heat(heat_text(cloud.a_report("lab-1", vps=lost)))
    assert [one["worst_ratio"] for one in told["domains"]] == [0.3, None]


def minute_of(vp):
    return unpack(pack(a_report(vp))).vps[0]


def test_a_history_keeps_what_was_lost_and_waited():
    vp = cloud.a_vp(interference=a_loss(loss_ratio=0.2134), **cloud.asked())
    kept = minute_of(vp)
    assert (kept.loss_ratio, kept.waiting_ratio) == (0.213, 0.1234)
    assert kept.metrics == cloud.metrics()


def test_a_history_says_where_that_is_unknown():
    kept = minute_of(cloud.a_vp(interference=a_loss()))
    assert (kept.loss_ratio, kept.waiting_ratio) == (None, None)
    assert minute_of(cloud.a_vp(metrics=None)).loss_ratio is None
    assert minute_of(cloud.a_vp()).loss_ratio == 0.0


def test_a_minute_that_the_release_before_wrote_is_read(monkeypatch):
    monkeypatch.setattr("nova_vp.db.serialization._NUMBERS", " ".join(["%.4g"] * len(METRICS)))
    monkeypatch.setattr("nova_vp.db.serialization._losses", lambda report, vp: ())
    kept = minute_of(cloud.a_vp())
    assert kept.metrics == cloud.metrics()
    assert (kept.loss_ratio, kept.waiting_ratio) == (None, None)
