# SPDX-License-Identifier: Apache-2.0
"""Proposals that operators reject: the agent is told by whom and why; tenants are told nothing."""

import pytest

from tests.unit.api import cloud
from tests.unit.api.client import Api, Persona

ADMIN, READER, SERVICE = Persona("admin"), Persona("reader"), Persona("service")
PROPOSAL = "6f1c2d3e-2"
REJECT = f"/v1/actions/{PROPOSAL}/reject"


def test_the_agent_is_told_by_whom_and_why():
    api = Api()
    answer = api.latest(ADMIN, REJECT, "POST", {"reason": "not now"})
    assert answer.status == 200
    assert answer.json == {"action": {"id": PROPOSAL, "host": "lab-1", "is_rejected": True}}
    assert api.agents.rejected == [("lab-1", PROPOSAL, "user-admin", "not now")]


def test_a_reason_may_be_missing():
    api = Api()
    assert api.latest(ADMIN, REJECT, "POST", {}).status == 200
    assert api.agents.rejected == [("lab-1", PROPOSAL, "user-admin", "")]


@pytest.mark.parametrize("body", [{"reason": 1}, {"reason": "x" * 256}, {"why": "x"}, []])
def test_what_is_no_rejection(body):
    assert Api().latest(ADMIN, REJECT, "POST", body).status == 400


@pytest.mark.parametrize("persona", [READER, Persona("member"), SERVICE])
def test_operators_alone_reject(persona):
    api = Api()
    assert api.latest(persona, REJECT, "POST", {}).status == 403
    assert api.agents.rejected == []


def test_it_is_of_1_4():
    headers = {"OpenStack-API-Version": "performance-isolation 1.3"}
    assert Api().ask(ADMIN, REJECT, "POST", {}, headers=headers).status == 404


def rejected_before():
    action = cloud.an_action(
        id="vp-1", result="rejected", detail="rejected by user-admin: not now", victim=cloud.VICTIM
    )
    return Api([cloud.a_record(vps=[cloud.a_vp(actions=[action])])])


def test_the_history_says_who_rejected_it_and_why():
    (told,) = rejected_before().latest(ADMIN, "/v1/actions?result=rejected").json["actions"]
    assert told["detail"] == "rejected by user-admin: not now"


@pytest.mark.parametrize("path", [f"/v1/vps/{cloud.VICTIM}", f"/v1/vps/{cloud.VICTIM}/actions"])
def test_a_tenant_is_told_nothing_of_it(path):
    body = rejected_before().latest(READER, path).json
    assert body.get("vp", body)["actions"] == []
