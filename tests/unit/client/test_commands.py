# SPDX-License-Identifier: Apache-2.0
"""`openstack vp history, action, escalation, profile, set, unset, explain, top` against the real
application: what operators read, what tenants read, and what is said where something is wrong."""

import subprocess
import sys
from pathlib import Path

import pytest
import webob

from nova_vp.escalation_status import Status
from tests.terminal import ENDED, Terminal, missing_for_terminal
from tests.unit.api import cloud
from tests.unit.client.conftest import RENAMED

OPENSTACK = Path(sys.executable).with_name("openstack")
ESCALATION = cloud.ESCALATION
DONE, PROPOSED = "6f1c2d3e-1", "6f1c2d3e-2"
NEIGHBOURS = ("noisy", cloud.NOISY, "lab-1", "CPUs 0-1", "misses/s")
"""What no tenant is told."""


def test_history(lab):
    table = lab.run("vp history victim").words
    assert "At State Hurt MPKI MF CPI CPU Host" in table
    assert "2026-01-02T02:57:00Z 2 bulldog no 20.5 0.68 2.5 1 lab-2" in table
    assert "2026-01-02T03:04:00Z 8 bulldog cache 20.5 0.68 2.5 1 lab-1" in table
    latest = lab.run("vp history victim -f json --begin 2026-01-02T03:00").json[-1]
    assert latest["State"] == 8
    assert latest["MF"] == 0.68


def test_history_of_a_tenant(lab):
    ran = lab.run("vp history victim", user="member")
    assert "8 bulldog yes 20.5 0.68 2.5 1" in ran.words
    assert not any(word in ran.out for word in NEIGHBOURS)
    assert lab.run("vp history victim --limit 1 -f json", user="member").json[0]["State"] == 2
    assert lab.run("vp history victim --every 60 -f json", user="member").json == []


def test_a_server_by_the_name_that_nova_knows(lab):
    ran = lab.run(f"vp show {RENAMED} -f value -c name", user="member")
    assert ran.out == "victim\n", ran.err


def test_a_name_that_two_servers_have_in_nova(lab, monkeypatch):
    monkeypatch.setattr(lab.nova, "names", {cloud.VICTIM: "twin", cloud.SLEEPER: "twin"})
    ran = lab.run("vp explain twin", user="member")
    assert ran.rc == 1
    assert f"Use the id of one: {cloud.VICTIM}, {cloud.SLEEPER}" in ran.err


def test_names_where_nova_does_not_answer(lab, monkeypatch):
    alone = {"performance-isolation": lab.keystone.endpoints["performance-isolation"]}
    monkeypatch.setattr(lab.keystone, "endpoints", alone)
    assert lab.run("vp show victim -f value -c name").out == "victim\n"


def test_actions(lab):
    table = lab.run("vp action list").words
    assert f"{PROPOSED} 2026-01-02 03:04 noisy cap-aggressor proposed lab-1" in table
    assert f"{DONE} 2026-01-02 03:03 noisy move-aggressor mended lab-1" in table
    rows = lab.run("vp action list --server victim --result mended --host lab-1 -f json").json
    assert [row["ID"] for row in rows] == [DONE]
    assert rows[0]["At"] == "2026-01-02T03:03:05Z"
    assert rows[0]["Server"] == cloud.NOISY
    assert lab.run("vp action list --server victim --limit 1 -f value -c ID").out == f"{PROPOSED}\n"
    assert lab.run("vp action list --begin 2026-01-03 -f json").json == []


def test_an_action(lab):
    told = lab.run(f"vp action show {DONE}").words
    assert f"server noisy ({cloud.NOISY})" in told
    assert "changes noisy: CPUs 0-1 -> 2-3 hurt_ratio 2%" in told
    assert "noisy to domain 2 (moving its vCPUs: no CPU is free there)" in told
    assert lab.run(f"vp action show {DONE} --host lab-1 -f json").json["result"] == "mended"


def test_actions_of_a_tenant(lab):
    ran = lab.run("vp action list --server victim", user="member")
    assert "2026-01-02T03:03:05Z a neighbour was moved away mended" in ran.words
    assert not any(word in ran.out for word in NEIGHBOURS)


def test_apply_and_undo(lab):
    done = lab.run(f"vp action apply {PROPOSED}")
    assert done.out == f"lab-1: its agent will apply {PROPOSED}\n", done.err
    done = lab.run(f"vp action undo {DONE} --host lab-1")
    assert done.out == f"lab-1: its agent undoes {DONE}\n", done.err
    assert lab.agents.accepted == [("lab-1", PROPOSED)]
    assert lab.agents.undone == [("lab-1", DONE)]


def test_escalations(lab, stored):
    table = lab.run("vp escalation list --status proposed").words
    assert f"{ESCALATION} 2026-01-02 03:04 victim proposed lab-1" in table
    told = lab.run(f"vp escalation show {ESCALATION}").words
    assert "meaning neighbours keep the memory controller busy that serves it" in told
    assert f"noisy ({cloud.NOISY}), the aggressor: 25% for the victim" in told
    assert "rejected noisy (capping its CPU: it is at the floor of its flavor already)" in told
    assert f"status proposed, and waits for openstack vp escalation accept {ESCALATION}" in told
    assert (
        f"choice noisy ({cloud.NOISY}), the aggressor: 2.5 s to copy, costs 0.6 and gains" in told
    )
    assert f"not victim ({cloud.VICTIM}), the victim: costs 1.2 where noisy costs 0.6;" in told
    assert "accepted_at no accepted_by none" in told
    as_json = lab.run(f"vp escalation show {ESCALATION} -f json").json
    assert as_json["status"] == "proposed"
    assert as_json["choice"]["mover"]["name"] == "noisy"
    accepted = lab.run(f"vp escalation accept {ESCALATION}")
    assert f"openstack vp escalation show {ESCALATION}" in accepted.out, accepted.err
    assert stored.ledger.get(ESCALATION).status is Status.RECEIVED
    assert "accepted_by id-of-admin" in lab.run(f"vp escalation show {ESCALATION}").words
    refused = lab.run(f"vp escalation accept {ESCALATION}")
    assert refused.rc == 1
    assert "only what is proposed can be accepted" in refused.err


def test_profiles(lab):
    assert "vp.small 3 7 terrier AHZwLnNtYWxs" in lab.run("vp profile list").words
    told = lab.run("vp profile show vp.small").words
    assert "image none vps_count 3 vp_class 7 terrier classes 1 terrier: 1 servers" in told
    by_id = lab.run("vp profile show AHZwLnNtYWxs -f json").json
    assert by_id["flavor"] == "vp.small"


def test_orders_of_an_operator(lab):
    told = lab.run("vp set victim --priority 7 --mode observe")
    assert told.out.startswith("victim: mode observe at most, priority 7 (by id-of-admin"), told.err
    assert told.out.endswith("; its host was told\n")
    assert lab.run("vp show victim -f json").json["orders"]["priority"] == 7
    assert lab.run("vp unset victim --priority").out.startswith("victim: mode observe at most (by")
    assert lab.run("vp unset victim --mode").out.startswith("victim: nothing is ordered")


def test_orders_of_a_tenant(lab):
    told = lab.run("vp set victim --opt-out", user="member")
    assert told.out.startswith("victim: opted out: it is measured and left alone;"), told.err
    told = lab.run("vp explain victim", user="member")
    assert "Ordered by people: opted out: it is measured and left alone." in told.words
    told = lab.run("vp unset victim --opt-out", user="member")
    assert told.out.startswith("victim: nothing is ordered")
    refused = lab.run("vp set victim --mode enforce", user="member")
    assert refused.rc == 1
    assert "HTTP 403" in refused.err


def test_explain_to_an_operator(lab):
    told = lab.run("vp explain victim").words
    assert "as its host saw it at 2026-01-02T03:04:02Z" in told
    assert "Of 1000 instructions 20.5 miss the last-level cache (MPKI): 68% of those" in told
    assert "State 8 of 0 to 8 (bulldog), since 2026-01-02T03:03:35Z: it works in memory" in told
    assert "Hurt Yes, since 2026-01-02T03:03:55Z: neighbours evict its data" in told
    assert f"Guilty: noisy ({cloud.NOISY}), 1.5 M misses/s more than before." in told
    assert "noisy: CPUs 0-1 -> 2-3, since its misses hurt a neighbour" in told
    assert "goes to another cache: it helped." in told
    assert f"migrated: `openstack vp escalation show {ESCALATION}`." in told
    assert "Proposed: noisy: cap none -> 90 % of each vCPU" in told
    assert "Not done: noisy, moving its vCPUs: no CPU is free there." in told


def test_explain_of_who_hurts_another(lab):
    told = lab.run("vp explain noisy").words
    assert f"guilty of what victim ({cloud.VICTIM}) suffers since 2026-01-02T03:03:55Z" in told
    assert "Proposed: noisy: cap none -> 90 % of each vCPU" in told
    assert "Nothing has to be done" not in told


def test_explain_to_an_operator_of_a_host_that_was_told_less(lab):
    told = lab.run("vp explain sleeper").words
    assert "What would slow it: neighbours that fill the cache." in told
    assert "See `openstack vp host show lab-2`, and whether vp-agent runs there." in told


def test_explain_to_a_tenant(lab):
    ran = lab.run("vp explain victim", user="member")
    assert f"victim ({cloud.VICTIM}) Measured It uses the time of 1 CPUs" in ran.words
    assert "Hurt Yes, by a neighbour." in ran.words
    assert "2026-01-02T03:03:05Z a neighbour was moved away: it helped." in ran.words
    assert "does what your operator lets it do." in ran.words
    assert not any(word in ran.out for word in (*NEIGHBOURS, "openstack vp"))
    stale = lab.run("vp explain sleeper", user="member").words
    assert "Measured Nothing is measured of it now." in stale
    assert "If that lasts, tell your operator." in stale


def test_a_project_is_given_by_its_name_too(lab, monkeypatch):
    monkeypatch.setattr(lab.keystone, "projects", {"shop": cloud.ALPHA})
    for project in ("shop", cloud.ALPHA):
        rows = lab.run(f"vp list --project {project} -f json").json
        assert {row["Name"] for row in rows} == {"victim", "sleeper"}
    told = lab.run("vp action list --project shop")
    assert (told.rc, told.out.strip()) == (0, ""), told.err
    for user in ("admin", "member"):
        refused = lab.run("vp list --project nosuch", user=user)
        assert refused.rc == 1
        assert "Keystone shows you no project 'nosuch'" in refused.err


def test_a_server_is_listed_by_the_name_that_nova_knows_now(lab):
    [row] = lab.run(f"vp list --name {RENAMED} -f json").json
    assert (row["Server ID"], row["Name"]) == (cloud.VICTIM, "victim")
    assert lab.run(f"vp list --name {RENAMED} --state 0 -f json").json == []
    assert lab.run("vp list --name nobody -f json").json == []


def test_a_tenant_is_told_which_roles_may(lab):
    refused = lab.run("vp set victim --mode observe", user="member")
    assert refused.rc == 1
    assert "with one of the roles that it names (manager, admin)" in refused.err


def test_top_once(lab):
    table = lab.run("vp top --once").words
    assert "4 servers, 1 hurt by a neighbour" in table
    rows = table.partition("UNKNOWN ")[2]
    assert rows.startswith("victim lab-1 8 bulldog, mf>0.6")
    assert "sleeper lab-2 unknown - ? soft stale" in rows
    assert "orphan lab-1 unknown - ? soft idle" in rows
    ran = lab.run("vp top --once", user="member")
    assert "SERVER STATE FOR HURT" in ran.words
    assert not any(word in ran.out for word in NEIGHBOURS)
    assert "sleeper" not in lab.run("vp top --once --host lab-1").out


@pytest.mark.skipif(missing_for_terminal() is not None, reason=str(missing_for_terminal()))
def test_top_on_a_terminal(lab, monkeypatch):
    environment = [f"{name}={value}" for name, value in lab.environment().items()]
    command = ["env", *environment, OPENSTACK, "vp", "top", "--interval", "1"]
    with Terminal(command) as terminal:
        screen = terminal.wait_for("1 hurt by a neighbour")
        assert "victim" in screen
        monkeypatch.setattr(lab.balancer, "is_without_api", True)
        terminal.wait_for("as it was told last: HTTP 503")
        # Its token counts no more, and keystone gives no other.
        monkeypatch.setattr(lab.balancer, "is_without_api", False)
        monkeypatch.setattr(lab.balancer, "application", webob.Response(status=401))
        monkeypatch.setattr(lab.keystone, "closed_projects", {cloud.ALPHA})
        terminal.wait_for("as it was told last: no role")
        terminal.press("q")
        terminal.wait_for(f"{ENDED}: 0")


def test_the_command_itself(lab):
    done = subprocess.run(
        [OPENSTACK, *["vp", "list", "-f", "csv", "--quote", "none"]],
        env=lab.environment("member"),
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    csv = done.stdout.splitlines()
    assert csv[:2] == ["Server ID,Name,State,Hurt", f"{cloud.VICTIM},victim,8,True"]


@pytest.mark.parametrize(
    ("command", "user", "said"),
    [
        ("vp action list", "member", "does not name any of your roles"),
        ("vp action list", "member", "`openstack vp action list --server SERVER`, without --host"),
        ("vp action show nope", "admin", "`openstack vp action list` shows those that are"),
        ("vp escalation show nope", "admin", "`openstack vp escalation list` shows those"),
        ("vp profile show nope", "admin", "`openstack vp profile list` shows those"),
        ("vp set victim", "admin", "Say what: --mode, --opt-out or --priority."),
        ("vp set victim --priority 12", "admin", "invalid choice: 12"),
        ("vp history victim --last 3x", "admin", "'3x' is no span like 90s, 30m, 12h or 7d"),
        ("vp history victim --last 999999d", "admin", "Give a shorter --last"),
        ("vp history victim --begin noon", "admin", "'noon' is no time like 2026-01-02T03:04:05Z"),
        ("vp history victim --last 1h --begin 2026-01-01", "admin", "--last or --begin, not both"),
        ("vp list --sort fame", "admin", "'fame' is none of server_id, name"),
        ("vp list --limit 0", "admin", "'0' is not one row or more"),
        ("vp top --once --host lab-9", "admin", "`openstack vp host list` shows the known ones"),
        ("vp top", "admin", "a live view needs a terminal"),
        ("vp top --interval 0.1", "admin", "'0.1' are not seconds from 1 to 3600"),
    ],
)
def test_errors_say_what_to_do(lab, command, user, said):
    ran = lab.run(command, user=user)
    assert ran.rc != 0
    assert said in " ".join(ran.err.split())
    assert "Traceback" not in ran.err
