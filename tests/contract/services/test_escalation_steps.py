# SPDX-License-Identifier: Apache-2.0
"""One escalation after another through a worker's steps, with Nova and keystone over HTTP.

python-novaclient and keystoneauth are the real ones; the ledger is a real database; the clock is
moved by hand.
"""

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from nova_vp import rpcapi
from nova_vp.db import schema
from nova_vp.db.escalations import DAY
from nova_vp.db.purge import Before, Step, purge
from nova_vp.db.records import Escalation
from nova_vp.escalation_status import Status
from tests.escalations import ID, QUIET, Cluster, other_id
from tests.fake_nova import FakeMigration, FakeServer
from tests.messages import AGGRESSOR, VICTIM, a_candidate
from vp_scheduler.escalation import settings


def dear(uuid: str, role: str, **fields: Any) -> dict[str, Any]:
    return a_candidate(uuid, role, name=f"{role}-{uuid[:1]}", memory_kib=8 << 20, **fields)


def test_the_cheapest_that_helps_is_moved_and_everybody_is_told(cluster: Cluster) -> None:
    cluster.escalate(
        dear(VICTIM, "victim"),
        dear(AGGRESSOR, "aggressor", dirty_kib_per_s=1e6),
        a_candidate(QUIET, "co-runner", name="quiet", sensitivity=[], dirty_kib_per_s=10.0),
    )
    found = cluster.settle()
    assert found.status is Status.COMPLETED
    [attempt] = found.attempts
    [migration] = cluster.nova.migrations
    assert (attempt.server, attempt.dest_host, attempt.nova_id) == (QUIET, "vp2", migration.id)
    assert attempt.nova_uuid == migration.uuid
    assert cluster.agents.prepared == [QUIET]
    assert cluster.agents.told == [(QUIET, "completed")]
    assert cluster.agents.held == {}
    assert cluster.nova.servers[QUIET].host == "vp2"
    assert "Move quiet (co-runner, 2048 MiB" in found.reason
    assert "writes 977 MiB/s, and 500 MiB/s can be copied" in found.reason
    choice = json.loads(found.choice or "")
    assert choice["mover"]["uuid"] == QUIET
    assert {one["uuid"]: one["why"] for one in choice["rejected"]} == {
        VICTIM: "dearer",
        AGGRESSOR: "never-copied",
    }


def test_migrations_are_asked_for_as_a_member_of_the_servers_project(cluster: Cluster) -> None:
    cluster.nova.servers[VICTIM].project_id = "p7"
    cluster.escalate(a_candidate(project_id="p7"))
    assert cluster.settle().status is Status.COMPLETED
    [migration] = cluster.nova.migrations
    assert (migration.user_id, migration.project_id) == ("id-of-vp_escalation", "p7")


def test_a_project_we_are_no_member_of_is_told_with_what_to_grant(cluster: Cluster) -> None:
    cluster.keystone.closed_projects.add("p1")
    cluster.escalate(a_candidate())
    found = cluster.settle()
    assert found.status is Status.REFUSED
    assert "on the domain and inherited" in found.reason
    assert cluster.agents.told == [(VICTIM, "refused")]


def test_observe_records_what_would_be_done(cluster: Cluster) -> None:
    cluster.steps = cluster.a_worker(escalation_mode="observe")
    cluster.escalate(a_candidate())
    found = cluster.settle()
    assert found.status is Status.OBSERVED
    assert "Observed only." in found.reason
    assert "Move db (victim" in found.reason
    assert (cluster.nova.migrations, cluster.agents.prepared) == ([], [])


@pytest.mark.parametrize(
    ("mode", "ending"),
    [("observe", ["observed"]), ("enforce", ["preparing", "requesting", "migrating", "completed"])],
)
def test_the_log_has_a_line_for_all_that_becomes_of_it(
    cluster: Cluster, caplog: pytest.LogCaptureFixture, mode: str, ending: list[str]
) -> None:
    cluster.steps = cluster.a_worker(escalation_mode=mode)
    cluster.escalate(a_candidate())
    with caplog.at_level(logging.INFO, logger="vp_scheduler.escalation.context"):
        cluster.settle()
    lines = [record.getMessage() for record in caplog.records]
    assert [line.split()[2].rstrip(":") for line in lines] == ending
    assert all(line.startswith(f"escalation={ID} host=vp1 ") for line in lines)
    assert "Move db (victim" in lines[0]


@pytest.mark.parametrize("who", ["cloud", "host"])
def test_advise_waits_for_an_operator(cluster: Cluster, who: str) -> None:
    cluster.steps = cluster.a_worker(escalation_mode="advise" if who == "cloud" else "enforce")
    cluster.escalate(a_candidate(), mode="enforce" if who == "cloud" else "advise")
    for _ in range(5):
        cluster.step()
    assert cluster.found().status is Status.PROPOSED
    assert cluster.nova.migrations == []
    cluster.ledger.accept(ID, by="u1", now=cluster.clock.now)
    assert cluster.settle().status is Status.COMPLETED
    assert len(cluster.nova.migrations) == 1


def test_a_proposal_that_nobody_accepts_ends_and_is_purged(cluster: Cluster) -> None:
    cluster.steps = cluster.a_worker(escalation_mode="advise")
    cluster.escalate(a_candidate())
    cluster.step(span_s=6 * DAY.total_seconds())
    cluster.step(span_s=DAY.total_seconds())
    assert cluster.found().status is Status.PROPOSED
    cluster.step()
    found = cluster.found()
    assert (found.status, found.settled_at is None) == (Status.REFUSED, False)
    assert "Move db (victim" in found.reason
    assert found.reason.endswith("Refused: no operator has accepted it within 7 days.")
    assert cluster.agents.told == [(VICTIM, "refused")]
    later = cluster.clock.now + 3 * DAY
    steps = purge(schema.open_engine(cluster.conf()), Before(later, later, later), later)
    assert Step("escalations", 1) in list(steps)


def test_a_host_in_mode_observe_is_left_alone(cluster: Cluster) -> None:
    cluster.escalate(a_candidate(), mode="observe")
    assert cluster.settle().status is Status.OBSERVED


def test_nobody_to_move_is_told_to_the_agent(cluster: Cluster) -> None:
    cluster.escalate(a_candidate(obstacle="it has a PCI device"))
    found = cluster.settle()
    assert found.status is Status.REFUSED
    assert "Rejected db (victim): it has a PCI device." in found.reason
    assert cluster.agents.told == [(VICTIM, "refused")]


def test_a_victim_that_is_well_again_is_left_alone(cluster: Cluster) -> None:
    cluster.agents.why_not[VICTIM] = rpcapi.NO_LONGER_HURT
    cluster.escalate(a_candidate())
    assert cluster.settle().status is Status.WITHDRAWN
    assert cluster.nova.migrations == []


def test_whom_its_agent_cannot_let_go_of_stays_and_the_next_is_tried(cluster: Cluster) -> None:
    cluster.agents.why_not[VICTIM] = "the undo failed"
    cluster.escalate(a_candidate(), dear(AGGRESSOR, "aggressor"))
    found = cluster.settle()
    assert found.status is Status.COMPLETED
    assert [(a.server, a.status) for a in found.attempts] == [
        (VICTIM, Status.FAILED),
        (AGGRESSOR, Status.COMPLETED),
    ]
    assert [one.server for one in cluster.nova.migrations] == [AGGRESSOR]
    assert cluster.agents.told == [(VICTIM, "failed"), (AGGRESSOR, "completed")]


def test_no_valid_host_is_learned_from(cluster: Cluster) -> None:
    cluster.nova.destination = lambda server: None if server.id == VICTIM else "vp3"
    cluster.escalate(a_candidate(), dear(AGGRESSOR, "aggressor"))
    found = cluster.settle()
    assert [(a.server, a.dest_host) for a in found.attempts] == [(VICTIM, None), (AGGRESSOR, "vp3")]
    assert "no valid host" in found.attempts[0].detail
    assert found.status is Status.COMPLETED
    again = "88888888-8888-5888-8888-888888888888"
    cluster.escalate(a_candidate(), id=again)
    refused = cluster.settle(again)
    assert refused.status is Status.REFUSED
    assert "was selected for a migration at 12:00 UTC (failed)" in refused.reason
    cluster.nova.destination = lambda server: "vp3"
    cluster.clock.pass_s(3600)
    after = "77777777-7777-5777-8777-777777777777"
    cluster.escalate(a_candidate(), id=after)
    assert cluster.settle(after).status is Status.COMPLETED


def test_two_guests_that_no_host_takes_are_enough(cluster: Cluster) -> None:
    cluster.nova.destination = lambda server: None
    cluster.escalate(a_candidate(), a_candidate(AGGRESSOR, "aggressor"), a_candidate(QUIET))
    found = cluster.settle()
    assert found.status is Status.FAILED
    assert len(found.attempts) == len(cluster.nova.migrations) == 2


def test_a_guest_that_was_moved_is_not_moved_again_within_the_hold(cluster: Cluster) -> None:
    cluster.escalate(a_candidate())
    cluster.settle()
    back = "88888888-8888-5888-8888-888888888888"
    cluster.nova.servers[AGGRESSOR].host = "vp2"
    cluster.escalate(a_candidate(), dear(AGGRESSOR, "aggressor"), id=back, host="vp2")
    found = cluster.settle(back)
    assert [one.server for one in cluster.nova.migrations] == [VICTIM, AGGRESSOR]
    assert found.attempts[0].server == AGGRESSOR


@pytest.mark.parametrize(
    ("label", "spoil", "status", "words"),
    [
        ("locked", lambda s: setattr(s, "locked", True), Status.FAILED, "it is locked in Nova"),
        ("stopped", lambda s: setattr(s, "status", "SHUTOFF"), Status.FAILED, "it is SHUTOFF"),
        ("resizing", lambda s: setattr(s, "task_state", "x"), Status.FAILED, "busy with it (x)"),
        (
            "migrated by an operator, as Nova shows at first",
            lambda s: setattr(s, "task_state", "migrating"),
            Status.WITHDRAWN,
            "another migration of this server is running",
        ),
    ],
)
def test_a_server_that_is_not_free_is_left_alone(
    cluster: Cluster, label: str, spoil: Callable[[FakeServer], None], status: Status, words: str
) -> None:
    spoil(cluster.nova.servers[VICTIM])
    cluster.escalate(a_candidate())
    found = cluster.settle()
    assert (found.status, cluster.nova.migrations) == (status, []), label
    assert words in found.reason
    assert cluster.agents.held == {}


def begin_as_operator(cluster: Cluster) -> FakeMigration:
    cluster.nova.is_instant = False
    cluster.nova.begin(cluster.nova.servers[VICTIM], "id-of-admin", "admin")
    return cluster.nova.migrations[-1]


def test_an_operators_migration_in_flight_comes_first(cluster: Cluster) -> None:
    begin_as_operator(cluster)
    cluster.nova.servers[VICTIM].task_state = None  # seen in the list alone
    cluster.escalate(a_candidate())
    found = cluster.settle()
    assert found.status is Status.WITHDRAWN
    assert len(cluster.nova.migrations) == 1


def test_an_operator_who_is_faster_by_a_hair(cluster: Cluster) -> None:
    """Between our look and our request: Nova answers 409, and the migration is theirs."""
    cluster.agents.prepare = lambda *_: ""  # type: ignore[method-assign]
    nova = cluster.steps._context.nova
    migrate = nova.migrate

    def late(project_id: str, server: str) -> None:
        begin_as_operator(cluster)
        migrate(project_id, server)

    nova.migrate = late  # type: ignore[method-assign]
    cluster.escalate(a_candidate())
    found = cluster.settle()
    assert found.status is Status.WITHDRAWN
    assert [one.user_id for one in cluster.nova.migrations] == ["id-of-admin"]
    assert found.latest.nova_id is None


@pytest.mark.parametrize("code", [503, 504, 500, 429])
@pytest.mark.parametrize("was_heard", [True, False])
def test_whether_nova_heard_is_found_out_before_it_is_asked_again(
    cluster: Cluster, code: int, was_heard: bool
) -> None:
    cluster.nova.faults = [-code if was_heard else code]
    cluster.escalate(a_candidate())
    found = cluster.settle()
    assert found.status is Status.COMPLETED
    assert len(cluster.nova.migrations) == 1
    assert found.latest.asked == (1 if was_heard else 2)


def test_a_request_that_nova_hears_late_is_not_made_twice(cluster: Cluster) -> None:
    """It was lost on the way for 10 s, somewhere between us and nova-api."""
    cluster.nova.faults = [503]
    cluster.escalate(a_candidate())
    cluster.step()
    cluster.step()
    cluster.nova.begin(cluster.nova.servers[VICTIM], "id-of-vp_escalation", "p1")
    found = cluster.settle()
    assert (found.status, found.latest.asked) == (Status.COMPLETED, 1)
    assert len(cluster.nova.migrations) == 1


def test_an_earlier_migration_of_ours_is_not_taken_for_this_one(cluster: Cluster) -> None:
    cluster.escalate(a_candidate())
    cluster.settle()
    cluster.clock.pass_s(3601.0)
    cluster.nova.faults = [503]
    cluster.escalate(a_candidate(), id=other_id(2), host="vp2")
    assert cluster.settle(other_id(2)).latest.nova_id == 2
    assert len(cluster.nova.migrations) == 2


def test_nova_that_never_hears_is_given_up(cluster: Cluster) -> None:
    cluster.nova.faults = [503] * 100
    cluster.escalate(a_candidate())
    found = cluster.settle()
    assert found.status is Status.FAILED
    assert "asked 5 times without a result" in found.reason


def test_a_request_that_nova_refuses(cluster: Cluster) -> None:
    cluster.nova.faults = [400]
    cluster.escalate(a_candidate())
    found = cluster.settle()
    assert (found.status, cluster.nova.migrations) == (Status.FAILED, [])
    assert "Nova answers 400" in found.reason


def test_a_right_that_is_missing_names_the_policy(cluster: Cluster) -> None:
    cluster.nova.faults = [403]
    cluster.escalate(a_candidate())
    assert "etc/nova-vp/nova-policy.yaml" in cluster.settle().reason


def test_nova_away_while_it_migrates(cluster: Cluster) -> None:
    cluster.nova.is_instant = False
    cluster.escalate(a_candidate())
    cluster.until(lambda: cluster.found().status is Status.MIGRATING, "migrating")
    cluster.nova.away = 503
    for _ in range(10):
        cluster.step()
    assert cluster.found().status is Status.MIGRATING
    cluster.nova.away = 0
    cluster.nova.finish(1)
    assert cluster.settle().status is Status.COMPLETED


def test_nova_away_before_anything_was_begun(cluster: Cluster) -> None:
    cluster.escalate(a_candidate())
    cluster.agents.is_away = True
    cluster.until(lambda: cluster.found().status is Status.PREPARING, "preparing")
    cluster.agents.is_away = False
    cluster.nova.away = 503
    found = cluster.settle()
    assert (found.status, cluster.nova.migrations) == (Status.FAILED, [])
    assert cluster.agents.told == [(VICTIM, "failed")]


def test_what_nova_takes_on_and_begins_late_is_waited_for(cluster: Cluster) -> None:
    cluster.nova.begins = False
    cluster.escalate(a_candidate())
    for _ in range(200):  # much longer than any timeout
        cluster.step()
    assert cluster.found().status is Status.MIGRATING
    cluster.nova.catch_up()
    found = cluster.settle()
    assert (found.status, found.latest.nova_id) == (Status.COMPLETED, 1)
    assert len(cluster.nova.migrations) == 1


AS_NOVA_ENDS_ABORTED = pytest.mark.parametrize("nova_status", ["error", "cancelled"])


@AS_NOVA_ENDS_ABORTED
def test_too_slow_for_its_memory_is_aborted(cluster: Cluster, nova_status: str) -> None:
    cluster.nova.is_instant = False
    cluster.nova.aborts_end_as = nova_status
    cluster.escalate(a_candidate())
    found = cluster.settle()
    assert found.status is Status.TIMED_OUT
    assert found.latest.timeout_s == 400  # 2 GiB at 200 s
    assert (cluster.nova.aborted, cluster.nova.migrations[0].status) == ([1], nova_status)
    assert cluster.agents.told == [(VICTIM, "timed-out")]


@AS_NOVA_ENDS_ABORTED
def test_an_operator_aborts_it(cluster: Cluster, nova_status: str) -> None:
    cluster.nova.is_instant = False
    cluster.nova.aborts_end_as = nova_status
    cluster.escalate(a_candidate(), dear(AGGRESSOR, "aggressor"))
    cluster.until(lambda: cluster.found().status is Status.MIGRATING, "migrating")
    cluster.nova.cancel(cluster.nova.migrations[0])
    found = cluster.settle()
    assert (found.status, found.latest.nova_status) == (Status.ABORTED, nova_status)
    assert len(found.attempts) == 1


@pytest.mark.parametrize("nova_status", ["error", "failed"])
def test_it_fails_on_the_way(cluster: Cluster, nova_status: str) -> None:
    cluster.nova.is_instant = False
    cluster.nova.actions = [(VICTIM, "live_migration_cancel"), (VICTIM, "live-migration")]
    cluster.escalate(a_candidate(), dear(AGGRESSOR, "aggressor"))
    cluster.until(lambda: cluster.found().status is Status.MIGRATING, "migrating")
    cluster.nova.finish(1, nova_status)
    found = cluster.settle()
    assert (found.status, found.latest.nova_status) == (Status.FAILED, nova_status)
    assert len(found.attempts) == 1


@pytest.mark.parametrize("when", ["before", "while"])
def test_a_server_that_is_deleted(cluster: Cluster, when: str) -> None:
    cluster.nova.is_instant = False
    cluster.escalate(a_candidate())
    cluster.agents.is_away = when == "before"
    wanted = Status.PREPARING if when == "before" else Status.MIGRATING
    cluster.until(lambda: cluster.found().status is wanted, wanted.value)
    cluster.agents.is_away = False
    cluster.nova.delete_server(VICTIM)
    found = cluster.settle()
    assert found.status is Status.WITHDRAWN
    assert cluster.agents.told == [(VICTIM, "withdrawn")]


@pytest.mark.parametrize("host_status", ["UNKNOWN", "DOWN"])
def test_a_source_host_that_is_dead(cluster: Cluster, host_status: str) -> None:
    cluster.nova.is_instant = False
    cluster.escalate(a_candidate())
    cluster.until(lambda: cluster.found().status is Status.MIGRATING, "migrating")
    cluster.nova.servers[VICTIM].host_status = host_status
    cluster.agents.is_away = True
    cluster.until(lambda: cluster.found().status is Status.FAILED, "failed")
    assert "vp1 is down" in cluster.found().reason
    assert cluster.found().settled_at is None
    cluster.agents.is_away = False
    cluster.settle()
    assert cluster.agents.told == [(VICTIM, "failed")]


def test_a_source_host_that_was_down_for_a_moment(cluster: Cluster) -> None:
    cluster.nova.is_instant = False
    cluster.escalate(a_candidate())
    cluster.until(lambda: cluster.found().status is Status.MIGRATING, "migrating")
    for host_status in ("DOWN", "UP") * 3:
        cluster.nova.servers[VICTIM].host_status = host_status
        cluster.step(span_s=50.0)
    assert cluster.found().status is Status.MIGRATING


def test_an_agent_that_is_away_for_a_while_is_waited_for(cluster: Cluster) -> None:
    cluster.agents.is_away = True
    cluster.escalate(a_candidate())
    for _ in range(10):
        cluster.step()
    assert cluster.found().status is Status.PREPARING
    cluster.agents.is_away = False
    assert cluster.settle().status is Status.COMPLETED


def test_an_agent_that_never_comes_back_is_given_up(cluster: Cluster) -> None:
    cluster.agents.is_away = True
    cluster.escalate(a_candidate())
    cluster.until(lambda: cluster.found().status is Status.FAILED, "failed")
    assert cluster.nova.migrations == []
    for _ in range(200):
        cluster.step(span_s=600.0)
    assert cluster.found().settled_at is not None


def test_one_host_migrates_one_guest_at_a_time(cluster: Cluster) -> None:
    cluster.nova.is_instant = False
    cluster.escalate(a_candidate())
    cluster.until(lambda: cluster.found().status is Status.MIGRATING, "migrating")
    cluster.escalate(a_candidate(QUIET), id=other_id(2), victim=QUIET)
    for _ in range(10):
        cluster.step()
    waiting = cluster.found(other_id(2))
    assert waiting.status is Status.RECEIVED
    assert waiting.reason.startswith("Waits: 1 migrations run on this host already.")
    cluster.nova.is_instant = True
    assert cluster.settle(other_id(2)).status is Status.COMPLETED
    assert len(cluster.nova.migrations) == 2


def test_who_waits_for_the_budget_too_long_is_refused(cluster: Cluster) -> None:
    cluster.steps = cluster.a_worker(escalation_running=0, escalation_wait_s=60.0)
    cluster.escalate(a_candidate())
    found = cluster.settle()
    assert found.status is Status.REFUSED
    assert "Waited too long: 0 migrations run in the cloud already." in found.reason
    assert cluster.agents.told == [(VICTIM, "refused")]


def test_a_clock_that_is_set_forward_aborts_nothing(cluster: Cluster) -> None:
    cluster.nova.is_instant = False
    cluster.escalate(a_candidate())
    cluster.until(lambda: cluster.found().status is Status.MIGRATING, "migrating")
    cluster.step()
    cluster.clock.now = cluster.clock.now.replace(year=2027)
    cluster.step()
    assert (cluster.nova.aborted, cluster.found().status) == ([], Status.MIGRATING)
    cluster.nova.is_instant = True
    assert cluster.settle().status is Status.COMPLETED


def test_a_worker_that_was_held_up_before_it_asked_does_not_ask(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when its machine froze: another may have taken over meanwhile."""
    save = cluster.ledger.save

    def frozen(*args: Any) -> Escalation:
        saved = save(*args)
        if saved.status is Status.REQUESTING and saved.owner:
            cluster.clock.pass_s(40.0)
        return saved

    monkeypatch.setattr(cluster.ledger, "save", frozen)
    cluster.escalate(a_candidate())
    cluster.step()
    assert (cluster.found().status, cluster.nova.migrations) == (Status.REQUESTING, [])
    monkeypatch.undo()
    assert cluster.settle().status is Status.COMPLETED
    assert len(cluster.nova.migrations) == 1


def test_mode_observe_stops_what_was_not_asked_yet(cluster: Cluster) -> None:
    cluster.agents.is_away = True
    cluster.escalate(a_candidate())
    cluster.step()
    cluster.agents.is_away = False
    cluster.steps.apply_config(settings.read(cluster.conf(escalation_mode="observe")))
    assert cluster.settle().status is Status.WITHDRAWN
    assert cluster.nova.migrations == []


def test_mode_observe_after_one_attempt_failed_tells_its_agent(cluster: Cluster) -> None:
    cluster.agents.why_not[VICTIM] = "the undo failed"
    cluster.escalate(a_candidate(), dear(AGGRESSOR, "aggressor"))
    context = cluster.steps._context
    take = context.another

    def then_observe(found: Escalation, detail: str) -> Escalation:
        return context.wait(take(found, detail), 0.0)

    context.another = then_observe  # type: ignore[method-assign]
    cluster.step()
    assert cluster.found().status is Status.RECEIVED
    cluster.steps = cluster.a_worker(escalation_mode="observe")
    assert cluster.settle().status is Status.FAILED
    assert cluster.agents.told == [(VICTIM, "failed")]
