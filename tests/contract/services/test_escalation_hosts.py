# SPDX-License-Identifier: Apache-2.0
"""An escalation is a claim: nothing is done with a server that Nova does not say is on that host.

The ledger is a real database, python-novaclient speaks HTTP to the second implementation of Nova,
and the clock is moved by hand.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from nova_vp.db.records import Escalation
from nova_vp.escalation_status import Status
from tests.escalations import ID, QUIET, Cluster, other_id
from tests.fake_nova import FakeNova
from tests.messages import AGGRESSOR, VICTIM, a_candidate
from vp_scheduler.escalation.nova_client import NO_CLOUD, NoCloud

ELSEWHERE = "Nova says that it is on vp2, not on vp1"


def expensive_victim() -> dict[str, Any]:
    """It could be moved; anybody else is cheaper."""
    return a_candidate(name="db", memory_kib=64 << 20)


def quiet() -> dict[str, Any]:
    return a_candidate(QUIET, "co-runner", name="quiet", sensitivity=[])


def aggressor() -> dict[str, Any]:
    return a_candidate(AGGRESSOR, "aggressor", name="noisy", sensitivity=[])


def rejections(found: Escalation) -> dict[str, tuple[str, str]]:
    rejected = json.loads(found.choice or "")["rejected"]
    return {one["uuid"]: (one["why"], one["detail"]) for one in rejected}


def test_servers_on_invented_hosts_are_not_migrated(cluster: Cluster) -> None:
    cluster.nova.is_instant = False
    servers = [f"{number:08d}-1111-4111-8111-111111111111" for number in range(6)]
    for number, server in enumerate(servers):
        cluster.nova.add_server(server, host="vp1")
        candidate = a_candidate(server, name=f"server-{number}")
        cluster.escalate(candidate, id=other_id(number), host=f"invented-{number}", victim=server)
    for _ in range(5):
        cluster.step(span_s=1.0)
    found = [cluster.found(other_id(number)) for number in range(6)]
    assert (cluster.nova.migrations, cluster.agents.prepared) == ([], [])
    assert {one.status for one in found} == {Status.REFUSED}
    for number, one in enumerate(found):
        claimed = f"Nova says that it is on vp1, not on invented-{number}"
        assert f"Refused because of its victim: {claimed}." in one.reason


def move_to_vp2(nova: FakeNova, server: str) -> None:
    nova.servers[server].host = "vp2"


def hide_host(nova: FakeNova, server: str) -> None:
    nova.servers[server].host = None


NOT_THERE = pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (move_to_vp2, ELSEWHERE),
        (FakeNova.delete_server, "Nova knows no such server in project p1"),
        (hide_host, "Nova does not say on which host it is"),
    ],
)


@NOT_THERE
def test_a_server_that_is_not_on_the_host_is_rejected_and_another_is_moved(
    cluster: Cluster, spoil: Callable[[FakeNova, str], None], words: str
) -> None:
    spoil(cluster.nova, AGGRESSOR)
    cluster.escalate(expensive_victim(), aggressor(), quiet())
    found = cluster.settle()
    assert found.status is Status.COMPLETED
    assert [one.server for one in cluster.nova.migrations] == [QUIET]
    why, detail = rejections(found)[AGGRESSOR]
    assert why == "not-on-host"
    assert detail.startswith(words)
    assert f"Rejected noisy (aggressor): {words}" in found.reason


@NOT_THERE
def test_a_server_that_is_not_on_the_host_is_never_the_last_resort(
    cluster: Cluster, spoil: Callable[[FakeNova, str], None], words: str
) -> None:
    spoil(cluster.nova, AGGRESSOR)
    cluster.escalate(a_candidate(obstacle="it has a PCI device"), aggressor())
    found = cluster.settle()
    assert (found.status, cluster.nova.migrations) == (Status.REFUSED, [])
    assert f"Rejected noisy (aggressor): {words}" in found.reason


@NOT_THERE
def test_a_victim_that_is_not_on_the_host_moves_nobody(
    cluster: Cluster, spoil: Callable[[FakeNova, str], None], words: str
) -> None:
    spoil(cluster.nova, VICTIM)
    cluster.escalate(expensive_victim(), aggressor(), quiet())
    found = cluster.settle()
    assert (found.status, found.attempts) == (Status.REFUSED, ())
    assert (cluster.nova.migrations, cluster.agents.prepared) == ([], [])
    assert f"Refused because of its victim: {words}" in found.reason
    assert json.loads(found.choice or "")["mover"] is None
    assert cluster.agents.told == [(VICTIM, "refused")]


def test_who_claims_a_server_is_not_told_where_it_is(cluster: Cluster) -> None:
    move_to_vp2(cluster.nova, VICTIM)
    cluster.escalate(a_candidate())
    cluster.settle()
    assert cluster.agents.details == [f"see openstack vp escalation show {ID}"]


def test_a_victim_whose_project_is_not_named_moves_nobody(cluster: Cluster) -> None:
    cluster.escalate(aggressor(), quiet())
    found = cluster.settle()
    assert (found.status, cluster.nova.migrations) == (Status.REFUSED, [])
    assert "the escalation does not list it among its candidates" in found.reason


def test_a_server_of_another_project_is_rejected(cluster: Cluster) -> None:
    cluster.nova.servers[AGGRESSOR].project_id = "p2"
    cluster.escalate(expensive_victim(), aggressor(), quiet())
    found = cluster.settle()
    assert [one.server for one in cluster.nova.migrations] == [QUIET]
    assert rejections(found)[AGGRESSOR][1] == "Nova knows no such server in project p1"


def test_a_right_to_see_hosts_that_is_missing_is_named(cluster: Cluster) -> None:
    cluster.nova.shows_hosts = False
    cluster.escalate(a_candidate())
    found = cluster.settle()
    assert (found.status, cluster.nova.migrations) == (Status.REFUSED, [])
    assert "os-extended-server-attributes" in found.reason
    assert "etc/nova-vp/nova-policy.yaml" in found.reason


def test_hosts_differ_by_case(cluster: Cluster) -> None:
    cluster.escalate(a_candidate(), host="VP1")
    assert cluster.settle().status is Status.REFUSED
    assert cluster.nova.migrations == []


def until_preparing(cluster: Cluster) -> None:
    """The choice is made; nothing was asked of Nova yet but where the servers are."""
    cluster.agents.is_away = True
    cluster.until(lambda: cluster.found().status is Status.PREPARING, "preparing")
    cluster.agents.is_away = False


@pytest.mark.parametrize("mover", ["victim", "quiet"])
@NOT_THERE
def test_a_server_that_leaves_between_the_choice_and_the_request_is_not_migrated(
    cluster: Cluster, spoil: Callable[[FakeNova, str], None], words: str, mover: str
) -> None:
    candidates = [a_candidate()] if mover == "victim" else [expensive_victim(), quiet()]
    cluster.escalate(*candidates)
    until_preparing(cluster)
    spoil(cluster.nova, VICTIM if mover == "victim" else QUIET)
    found = cluster.settle()
    assert (found.status, cluster.nova.migrations) == (Status.WITHDRAWN, [])
    told = "the server is gone" if spoil is FakeNova.delete_server else words
    assert told in found.reason
    assert found.latest.asked == 0
    assert cluster.agents.held == {}


@NOT_THERE
def test_a_victim_that_leaves_between_the_choice_and_the_request_moves_nobody(
    cluster: Cluster, spoil: Callable[[FakeNova, str], None], words: str
) -> None:
    cluster.escalate(expensive_victim(), quiet())
    until_preparing(cluster)
    spoil(cluster.nova, VICTIM)
    found = cluster.settle()
    assert (found.status, cluster.nova.migrations) == (Status.WITHDRAWN, [])
    assert f"the victim: {words}" in found.reason


def test_a_server_that_an_operator_moved_after_a_lost_request_is_not_migrated_again(
    cluster: Cluster,
) -> None:
    cluster.nova.faults = [503]
    cluster.escalate(a_candidate())
    cluster.step()
    assert cluster.found().status is Status.REQUESTING
    move_to_vp2(cluster.nova, VICTIM)
    found = cluster.settle()
    assert (found.status, cluster.nova.migrations) == (Status.WITHDRAWN, [])
    assert found.latest.asked == 1


def test_a_proposal_is_checked_anew_when_it_is_accepted(cluster: Cluster) -> None:
    cluster.escalate(a_candidate(), mode="advise")
    cluster.step()
    assert cluster.found().status is Status.PROPOSED
    move_to_vp2(cluster.nova, VICTIM)
    cluster.clock.pass_s(600.0)
    cluster.ledger.accept(ID, by="u1", now=cluster.clock.now)
    found = cluster.settle()
    assert (found.status, cluster.nova.migrations) == (Status.REFUSED, [])
    assert ELSEWHERE in found.reason


def test_servers_are_checked_anew_after_an_attempt_that_failed(cluster: Cluster) -> None:
    cluster.agents.why_not[VICTIM] = "the undo failed"
    cluster.escalate(a_candidate(), a_candidate(AGGRESSOR, "aggressor", memory_kib=8 << 20))
    until_preparing(cluster)
    move_to_vp2(cluster.nova, AGGRESSOR)
    cluster.clock.pass_s(300.0)
    found = cluster.settle()
    assert (found.status, cluster.nova.migrations) == (Status.FAILED, [])
    assert [one.server for one in found.attempts] == [VICTIM]
    assert ELSEWHERE in found.reason


def test_while_nova_cannot_be_asked_nothing_is_done(cluster: Cluster) -> None:
    cluster.nova.away = 503
    cluster.escalate(a_candidate())
    for _ in range(10):
        cluster.step()
    waiting = cluster.found()
    assert (waiting.status, waiting.attempts) == (Status.RECEIVED, ())
    assert waiting.reason.startswith("Waits: Nova cannot be asked where the servers are")
    assert (cluster.agents.prepared, cluster.agents.told) == ([], [])
    cluster.nova.away = 0
    assert cluster.settle().status is Status.COMPLETED


@pytest.mark.parametrize(("mode", "status"), [("enforce", "refused"), ("observe", "observed")])
def test_nova_that_cannot_be_asked_in_time(cluster: Cluster, mode: str, status: str) -> None:
    cluster.steps = cluster.a_worker(escalation_wait_s=60.0, escalation_mode=mode)
    cluster.nova.away = 503
    cluster.escalate(a_candidate())
    found = cluster.settle()
    assert (found.status.value, found.attempts) == (status, ())
    assert "Waited too long: Nova cannot be asked where the servers are" in found.reason
    assert cluster.clock.monotonic_s - 1000.0 < 120.0


def test_nova_that_cannot_be_asked_before_the_request_delays_it(cluster: Cluster) -> None:
    cluster.escalate(a_candidate())
    until_preparing(cluster)
    cluster.nova.away = 503
    for _ in range(5):
        cluster.step()
    assert (cluster.found().status, cluster.nova.migrations) == (Status.PREPARING, [])
    cluster.nova.away = 0
    assert cluster.settle().status is Status.COMPLETED


def test_nova_is_asked_once_while_the_budget_is_waited_for(cluster: Cluster) -> None:
    requests: list[float] = []
    cluster.nova.on_request = lambda: requests.append(cluster.clock.monotonic_s)
    cluster.steps = cluster.a_worker(escalation_running=0)
    cluster.escalate(a_candidate(), aggressor())
    for _ in range(10):
        cluster.step()
    assert cluster.found().reason.startswith("Waits: 0 migrations run in the cloud already")
    assert requests == [1000.0, 1000.0]
    cluster.clock.pass_s(120.0)
    cluster.step()
    assert len(requests) == 4


def test_the_budget_of_a_host_counts_the_host_that_nova_migrated_from(cluster: Cluster) -> None:
    """It moved between our last look and our request."""
    cluster.nova.is_instant = False
    nova = cluster.steps._context.nova
    migrate = nova.migrate

    def late(project_id: str, server: str) -> None:
        if server == VICTIM:
            cluster.nova.servers[VICTIM].host = "vp3"
        migrate(project_id, server)

    nova.migrate = late  # type: ignore[method-assign]
    cluster.escalate(a_candidate())
    cluster.until(lambda: cluster.nova.migrations and cluster.found().latest.nova_id, "followed")
    assert cluster.found().latest.source_host == "vp3"
    cluster.nova.servers[QUIET].host = "vp3"
    cluster.escalate({**quiet(), "role": "victim"}, id=other_id(2), host="vp3", victim=QUIET)
    for _ in range(3):
        cluster.step()
    assert cluster.found(other_id(2)).reason.startswith("Waits: 1 migrations run on this host")
    assert len(cluster.nova.migrations) == 1


def test_a_server_is_the_same_to_the_budgets_however_its_id_is_written(cluster: Cluster) -> None:
    server = "abcdefab-1111-4111-8111-111111111111"
    cluster.nova.add_server(server, host="vp1")
    cluster.escalate(a_candidate(server), victim=server)
    assert cluster.settle().status is Status.COMPLETED
    upper = server.upper()
    cluster.escalate(a_candidate(upper), id=other_id(2), host="vp2", victim=upper)
    found = cluster.settle(other_id(2))
    assert found.status is Status.REFUSED
    assert "was selected for a migration at" in found.reason
    assert len(cluster.nova.migrations) == 1


def test_observe_records_a_server_that_is_elsewhere(cluster: Cluster) -> None:
    cluster.steps = cluster.a_worker(escalation_mode="observe")
    move_to_vp2(cluster.nova, VICTIM)
    cluster.escalate(a_candidate())
    found = cluster.settle()
    assert found.status is Status.OBSERVED
    assert "Observed only." in found.reason
    assert ELSEWHERE in found.reason


@pytest.mark.parametrize(("mode", "status"), [("observe", "observed"), ("enforce", "refused")])
def test_without_a_cloud_only_observing_goes_on(cluster: Cluster, mode: str, status: str) -> None:
    """The default configuration: it records what the host claims, and says so."""
    cluster.steps = cluster.a_worker_over(NoCloud(), cluster.conf(escalation_mode=mode))
    cluster.escalate(a_candidate())
    found = cluster.settle()
    assert (found.status.value, found.attempts) == (status, ())
    assert NO_CLOUD in found.reason
    assert ("Move db (victim" in found.reason) is (mode == "observe")
