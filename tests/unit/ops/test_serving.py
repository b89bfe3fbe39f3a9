# SPDX-License-Identifier: Apache-2.0
"""`/metrics` and `/health` over HTTP, and how well an agent says it is."""

import json
import socket
import urllib.error
import urllib.request
from contextlib import closing
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry, Counter

from nova_vp.service import metrics_server
from nova_vp.service.broker_probe import BrokerProbe
from nova_vp.service.health import Check, Health, Status, bus_check, database_check, document
from nova_vp.service.metrics_server import MetricsServer, expose
from tests.decisions import a_decision, facts
from tests.unit.ops.test_agent_metrics import sources
from vp_agent.publish.health import AgentHealth

WELL = Health("h", "d", (Check("a", "b", Status.PASS, observed=1.23456, unit="s"),))
AT = datetime(2026, 11, 21, 10, 0, 0, 999, tzinfo=UTC)


def get(port, path):
    """Status, type and body."""
    try:
        answer = urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=10)
    except urllib.error.HTTPError as exc:
        answer = exc
    with closing(answer):
        return answer.status, answer.headers["Content-Type"], answer.read().decode()


@pytest.fixture
def served():
    """A port, the registry behind it, and the health that it tells: change the list's only one."""
    registry, health = CollectorRegistry(), [WELL]
    server = MetricsServer("127.0.0.1", 0, registry, lambda: health[0])
    yield server.port, registry, health
    server.close()


def test_metrics_are_made_when_asked_for(served):
    port, registry, _ = served
    count = Counter("some", "words", registry=registry)
    count.inc(41)
    count.inc()
    status, kind, body = get(port, "/metrics")
    assert (status, kind.split(";")[0]) == (200, "text/plain")
    assert "some_total 42.0" in body.splitlines()


@pytest.mark.parametrize(
    ("status", "code"), [(Status.PASS, 200), (Status.WARN, 200), (Status.FAIL, 503)]
)
def test_health_is_told_in_the_form_and_by_the_status(served, status, code):
    port, _, health = served
    health[0] = Health("h", "d", (*WELL.checks, Check("bus", "x", status, "do this")))
    answer, kind, body = get(port, "/health")
    assert (answer, kind) == (code, "application/health+json")
    told = json.loads(body)
    assert told["status"] == status.value
    assert told["checks"]["bus:x"][0]["output"] == "do this"


def test_other_paths_say_which_there_are(served):
    assert get(served[0], "/")[0] == 404
    assert "/health" in get(served[0], "/x")[2]


def test_a_client_that_says_nothing_keeps_nobody_waiting(served):
    with socket.create_connection(("127.0.0.1", served[0])):
        assert get(served[0], "/health")[0] == 200


def test_a_port_that_is_taken_does_not_keep_the_process_from_running(served, caplog):
    found = expose(
        "127.0.0.1", served[0], CollectorRegistry(), lambda: WELL, "[agent] metrics_port"
    )
    assert found is None
    assert "see [agent] metrics_port" in caplog.text


def test_port_0_serves_nothing():
    assert expose("127.0.0.1", metrics_server.OFF, CollectorRegistry(), lambda: WELL, "") is None


def test_it_listens_on_ipv6_too():
    server = MetricsServer("::1", 0, CollectorRegistry(), lambda: WELL)
    with socket.create_connection(("::1", server.port)):
        server.close()


def test_the_document():
    assert document(WELL, "1.2", AT) == {
        "status": "pass",
        "version": "1",
        "releaseId": "1.2",
        "serviceId": "h",
        "description": "d",
        "checks": {
            "a:b": [
                {
                    "status": "pass",
                    "time": "2026-11-21T10:00:00Z",
                    "observedValue": 1.235,
                    "observedUnit": "s",
                }
            ]
        },
    }


def test_the_worst_check_counts():
    checks = [Check("a", "b", status) for status in (Status.WARN, Status.FAIL, Status.PASS)]
    assert Health("h", "d", tuple(checks)).status is Status.FAIL
    assert Health("h", "d", (checks[2], checks[0])).status is Status.WARN
    assert Health("h", "d", ()).status is Status.PASS


@pytest.mark.parametrize(
    ("check", "status"),
    [
        (bus_check(True), Status.PASS),
        (bus_check(None), Status.PASS),
        (bus_check(False), Status.WARN),
        (bus_check(True, is_listening=False), Status.WARN),
        (database_check(True), Status.PASS),
        (database_check(False), Status.FAIL),
    ],
)
def test_what_is_not_well_says_what_to_do(check, status):
    assert check.status is status
    assert ("check" in check.output) is (status is not Status.PASS)


def test_a_broker_is_seen_to_come_and_go():
    clock = [0.0]
    with socket.create_server(("127.0.0.1", 0)) as broker:
        probe = BrokerProbe([("127.0.0.1", 1), broker.getsockname()], lambda: clock[0])
        assert probe.is_reachable() is True
    assert probe.is_reachable() is True  # Remembered: nobody can ask too often.
    clock[0] += 2.0
    assert probe.is_reachable() is False
    assert BrokerProbe([]).is_reachable() is None


# How well the agent is


def wellness(tmp_path, now_s=1000.0, **about):
    return AgentHealth(
        host="compute-17",
        state_directory=str(tmp_path),
        sources=sources(
            **{"last": lambda: a_decision(at_s=999.0), "sent_at_s": lambda: 990.0} | about
        ),
        interval_s=lambda: 1.0,
        started_at_s=900.0,
        clock=lambda: now_s,
    )


def unwell(found):
    return {check.name: check.status for check in found.checks if check.status is not Status.PASS}


ROWS = [
    ("all is well", {}, {}),
    ("no tick", {"last": lambda: None}, {"tick:age": Status.FAIL}),
    ("ticks ended", {"last": lambda: a_decision(at_s=980.0)}, {"tick:age": Status.FAIL}),
    ("no broker", {"is_broker_reachable": lambda: False}, {"bus:connection": Status.WARN}),
    ("not let in", {"is_listening": lambda: False}, {"bus:connection": Status.WARN}),
    ("not sent", {"sent_at_s": lambda: 810.0}, {"report:age": Status.WARN}),
    (
        "uncounted",
        {"host_info": lambda: facts(counters="none")},
        {"counters:problems": Status.WARN},
    ),
    ("gap", {"host_info": lambda: facts(problems=("x: y",))}, {"counters:problems": Status.WARN}),
]


@pytest.mark.parametrize(("about", "bad"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_an_agent_is_as_well_as_its_host_is_looked_after(tmp_path, about, bad):
    assert unwell(wellness(tmp_path, **about).look()) == bad


def test_an_agent_that_has_just_started_is_well(tmp_path):
    found = wellness(tmp_path, now_s=905.0, last=lambda: None, sent_at_s=lambda: None).look()
    assert unwell(found) == {}


def test_a_state_folder_that_is_gone_is_told(tmp_path):
    found = wellness(tmp_path / "gone").look()
    assert unwell(found) == {"state-directory:writable": Status.WARN}


def test_health_names_no_server(tmp_path):
    """What is wrong with the counters is told by name in the agent's own status alone."""
    found = wellness(tmp_path, host_info=lambda: facts(problems=("canary: canary",))).look()
    assert "canary" not in json.dumps(document(found, "1", AT))
