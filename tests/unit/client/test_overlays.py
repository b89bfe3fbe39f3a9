# SPDX-License-Identifier: Apache-2.0
"""Overlays from a shell and from a program, through the real vp-api."""

from collections.abc import Iterator

import oslo_messaging
import pytest
from keystoneauth1.identity import V3Password
from keystoneauth1.session import Session

import vp_client
from nova_vp.core.types.overlay import CallAnswer, Nack, Verb
from tests.unit.api import cloud
from tests.unit.api.stored import holding
from tests.unit.client.conftest import Cloud, serving
from vp_client.errors import AmbiguousOverlay, LoginFailed, NoSuchOverlay, Refused

# openstacksdk says at each import of its configuration that it will do without InfluxDB.
pytestmark = pytest.mark.filterwarnings("ignore:Support for InfluxDB")
HIDDEN = ("lab-1", "noisy", "done on")


@pytest.fixture
def lab(shell, tmp_path) -> Iterator[Cloud]:
    with serving(holding(), shell, tmp_path) as one:
        yield one


def test_the_shell_lists_and_shows(lab: Cloud) -> None:
    words = lab.run("vp overlay list", user="member").words
    assert f"{cloud.OVERLAY} checkout no 1 250 requests/s 2" in words
    [listed] = lab.run("vp overlay list -f json", user="member").json
    assert listed["Servers"] == [cloud.VICTIM, cloud.SLEEPER]
    shown = lab.run("vp overlay show checkout", user="member")
    assert "1 CPUs borrowed" in shown.words
    assert "credit: 25%" in shown.words
    assert not any(word in shown.out for word in HIDDEN)
    assert "on lab-1" in lab.run("vp overlay show checkout").words
    assert lab.run("vp overlay show checkout -f json").json["target"] == 250
    assert "no overlay" in lab.run(f"vp overlay show {cloud.UNKNOWN}").err


def test_the_shell_creates_changes_and_deletes(lab: Cloud) -> None:
    ran = lab.run("vp overlay create shop --target 5 --target-unit ms -f json", user="member")
    assert (ran.json["target"], ran.json["target_unit"], ran.json["servers"]) == (5, "ms", [])
    assert "another name" in lab.run("vp overlay create checkout", user="member").err
    refused = lab.run("vp overlay create x --server victim", user="member")
    assert refused.rc == 1
    assert "one overlay at most" in refused.err
    left = lab.run("vp overlay remove server checkout victim -f json", user="member").json
    assert [one["server_id"] for one in left["servers"]] == [cloud.SLEEPER]
    added = lab.run("vp overlay add server shop victim -f json", user="member").json
    assert [one["server_id"] for one in added["servers"]] == [cloud.VICTIM]
    assert lab.run("vp overlay set shop --no-target --name sale", user="member").out == ""
    changed = lab.run("vp overlay show sale -f json", user="member").json
    assert (changed["name"], changed["target"], changed["target_unit"]) == ("sale", None, "")
    assert "Nothing to change" in lab.run("vp overlay set sale", user="member").err
    assert "HTTP 403" in lab.run("vp overlay set sale --priority 9", user="member").err
    assert lab.run("vp overlay set sale --priority 9").rc == 0
    assert lab.run("vp overlay show sale -f json").json["priority"] == 9
    ran = lab.run("vp overlay delete sale nowhere checkout", user="member")
    assert (ran.rc, ran.out) == (1, "")
    assert "No overlay is named 'nowhere'" in ran.err
    assert "1 of 3 overlays are not deleted" in ran.err
    [left] = lab.run("vp overlay list -f json", user="member").json
    assert (left["Name"], left["Group"]) == ("shop", True), "the server has this vp:group"


def test_the_shell_calls(lab: Cloud) -> None:
    ran = lab.run("vp overlay call checkout tune --server victim --direction down", user="member")
    assert "granted yes" in ran.words
    assert f"{cloud.VICTIM}: granted: It is done." in ran.words
    lab.agents.answers["lab-1"] = CallAnswer("", Nack.NO_ROOM, "done on lab-1", 5.0)
    call = "vp overlay call checkout borrow --server victim --cpus 1 --lease-s 60 --id c1"
    told = lab.run(f"{call} -f json", user="member").json
    assert (told["id"], told["granted"], told["answers"][0]["nack"]) == ("c1", False, "no-room")
    assert not any(word in str(told) for word in HIDDEN)
    assert "done on lab-1" in lab.run(call).words
    assert "name one server" in lab.run("vp overlay call checkout tune", user="member").err
    assert [message.call.verb for _, message in lab.agents.calls] == [Verb.TUNE] + [Verb.BORROW] * 2


def test_operators_are_shown_islands_and_what_overlays_hold(lab: Cloud) -> None:
    words = lab.run("vp host show lab-1").words
    borrowed = f"own 0-1, CPU 2 of llc-1 for {cloud.OVERLAY}, memory of NUMA node 0"
    may = "2.5 CPUs at most: victim; its servers may use"
    assert f"llc-0 (capped): CPUs 0-2, {borrowed}, {may}" in words
    held = "1 CPUs borrowed, 25% credit, 7 calls granted, 2 refused, boosted: victim"
    assert f"{cloud.OVERLAY}: {held}" in words


@pytest.fixture
def session(lab: Cloud) -> Iterator[Session]:
    environment = lab.environment("member")
    auth = V3Password(
        auth_url=environment["OS_AUTH_URL"],
        username="member",
        password="secret",
        project_name=environment["OS_PROJECT_NAME"],
        user_domain_name="Default",
        project_domain_name="Default",
    )
    session = Session(auth)
    yield session
    session._session and session._session.close()


def test_an_application_calls_over_one_connection(lab: Cloud, session: Session) -> None:
    with vp_client.Overlay(session, cloud.OVERLAY) as overlay:
        result = overlay.tune("cpu", "up", cloud.VICTIM, lease_s=30)
        assert result == (True, None, "It is done.", 30.0)
        asked = lab.keystone.tokens_given
        lab.agents.answers["lab-1"] = CallAnswer("", Nack.NO_CREDIT)
        refused = overlay.trigger(cloud.VICTIM)
        assert (refused.granted, refused.nack) == (False, "no-credit")
    assert lab.keystone.tokens_given == asked
    verbs = [message.call.verb for _, message in lab.agents.calls]
    assert verbs == [Verb.TUNE, Verb.TRIGGER], "nothing was borrowed or triggered"
    ids = {message.call.id for _, message in lab.agents.calls}
    assert len(ids) == 2


def test_what_was_borrowed_is_released_at_the_end(lab: Cloud, session: Session) -> None:
    lab.run("vp overlay remove server checkout sleeper", user="member")
    with vp_client.Overlay(session, "checkout") as overlay:
        assert overlay.id == cloud.OVERLAY
        assert overlay.borrow(2, cloud.VICTIM).granted
        assert overlay.renew(cloud.VICTIM, lease_s=20).granted
    with vp_client.Overlay(session, "checkout") as overlay:
        overlay.trigger(cloud.VICTIM)
        overlay.release(cloud.VICTIM)
    calls = [(message.call.verb, message.call.guest_uuid) for _, message in lab.agents.calls]
    assert calls == [
        (Verb.BORROW, cloud.VICTIM),
        (Verb.RENEW, cloud.VICTIM),
        (Verb.RELEASE, ""),
        (Verb.TRIGGER, cloud.VICTIM),
        (Verb.RELEASE, cloud.VICTIM),
    ]


def test_a_call_without_an_answer_is_repeated_with_its_id(lab: Cloud, session: Session) -> None:
    overlay = vp_client.Overlay(session, cloud.OVERLAY)
    tried: list[str] = []
    real = lab.agents.call_overlay

    def call_overlay(host: str, text: str) -> str:
        tried.append(text)
        if len(tried) == 1:
            raise oslo_messaging.MessageDeliveryFailure("away for a moment")
        return real(host, text)

    lab.agents.call_overlay = call_overlay
    assert overlay.tune("cpu", "up", cloud.VICTIM).granted
    assert len(tried) == 2
    assert tried[0] == tried[1]


def test_an_application_is_told_what_it_did_wrong(lab: Cloud, session: Session) -> None:
    with pytest.raises(NoSuchOverlay, match="overlay list"):
        vp_client.Overlay(session, "shops")
    overlay = vp_client.Overlay(session, cloud.OVERLAY)
    with pytest.raises(Refused) as refused:
        overlay.tune("cpu", "sideways", cloud.VICTIM)
    assert refused.value.status == 400
    with pytest.raises(Refused) as refused:
        overlay.tune("cpu", "up", cloud.NOISY)
    assert refused.value.status == 404
    lab.balancer.is_without_api = True
    with pytest.raises(Refused) as refused:
        overlay.tune("cpu", "up", cloud.VICTIM)
    assert refused.value.status == 503
    lab.keystone.closed_projects.add(cloud.ALPHA)
    session.invalidate()
    with pytest.raises(LoginFailed):
        overlay.tune("cpu", "up", cloud.VICTIM)


def test_two_overlays_of_one_name_are_told_apart_by_their_ids(lab: Cloud) -> None:
    ran = lab.run(f"vp overlay create checkout --project {cloud.BETA} -f value -c id")
    twin = ran.out.strip()
    refused = lab.run("vp overlay show checkout")
    assert str(AmbiguousOverlay("checkout", [cloud.OVERLAY, twin])) in refused.err
