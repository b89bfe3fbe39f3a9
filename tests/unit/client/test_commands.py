# SPDX-License-Identifier: Apache-2.0
"""`openstack vp history, action, escalation, profile, set, unset, explain, top` against the real
application: what operators read, what tenants read, and what is said where something is wrong."""

import subprocess
import sys
from pathlib import Path

import oslo_messaging
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
    assert "At State Degraded MPKI MF CPI CPU Host" in table
    assert "2026-01-02T02:57:00Z 2 bulldog no 20.5 0.68 2.5 1 lab-2" in table
    assert "2026-01-02T03:04:00Z 8 bulldog 21.3% cache 20.5 0.68 2.5 1 lab-1" in table
    latest = lab.run("vp history victim -f json --begin 2026-01-02T03:00").json[-1]
    assert (latest["Degradation"], latest["Waiting"]) == (0.213, 0.1234)
    assert latest["State"] == 8
    assert latest["MF"] == 0.68


def test_history_of_a_tenant(lab):
    ran = lab.run("vp history victim", user="member")
    assert "8 bulldog about 20% 20.5 0.68 2.5 1" in ran.words
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
    assert f"Give the id of one of them: {cloud.VICTIM}, {cloud.SLEEPER}" in ran.err


@pytest.mark.parametrize(
    "nova", [{}, {"compute": "http://127.0.0.1:1/v2.1"}], ids=["not in the catalog", "away"]
)
def test_names_where_nova_does_not_answer(lab, monkeypatch, nova):
    ours = {"performance-isolation": lab.keystone.endpoints["performance-isolation"]}
    monkeypatch.setattr(lab.keystone, "endpoints", ours | nova)
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


@pytest.mark.needs_controllers("vp")
def test_actions_of_a_tenant(lab):
    ran = lab.run("vp action list --server victim", user="member")
    assert "2026-01-02T03:03:00Z a neighbour was moved away mended" in ran.words
    assert not any(word in ran.out for word in NEIGHBOURS)


def test_apply_and_undo(lab):
    done = lab.run(f"vp action accept {PROPOSED}")
    assert done.out == f"lab-1: its agent will apply {PROPOSED}\n", done.err
    done = lab.run(f"vp action undo {DONE} --host lab-1")
    assert done.out == f"lab-1: its agent will revert {DONE}\n", done.err
    assert lab.agents.accepted == [("lab-1", PROPOSED)]
    assert lab.agents.undone == [("lab-1", DONE)]


def test_several_proposals_at_once(lab):
    lab.agents.accepted.clear()
    done = lab.run(f"vp action accept {PROPOSED} gone {DONE}")
    assert done.rc == 1
    assert done.out == "".join(f"lab-1: its agent will apply {one}\n" for one in (PROPOSED, DONE))
    assert "gone: The action is not known" in done.err
    assert "1 of 3 actions failed" in done.err
    assert lab.agents.accepted == [("lab-1", PROPOSED), ("lab-1", DONE)]


def test_reject(lab):
    done = lab.run(f"vp action reject {PROPOSED} --reason later")
    assert done.out == f"lab-1: its agent withdraws {PROPOSED}\n", done.err
    assert lab.agents.rejected == [("lab-1", PROPOSED, "id-of-admin", "later")]
    refused = lab.run(f"vp action reject {PROPOSED}", user="member")
    assert refused.rc == 1
    assert "HTTP 403" in refused.err


def test_escalations(lab, stored):
    table = lab.run("vp escalation list --status proposed").words
    assert f"{ESCALATION} 2026-01-02 03:04 victim proposed lab-1" in table
    told = lab.run(f"vp escalation show {ESCALATION}").words
    assert "meaning neighbours overload the memory controller that serves it" in told
    assert f"noisy ({cloud.NOISY}), the aggressor: predicted gain 25% for the victim" in told
    assert "rejected noisy (capping its CPU: its cap is already at the floor of its flavor)" in told
    assert (
        f"status proposed; start the migration with openstack vp escalation accept {ESCALATION}"
        in told
    )
    assert (
        f"choice noisy ({cloud.NOISY}), the aggressor: copy time 2.5 s, cost 0.6 and gain" in told
    )
    assert f"rejected victim ({cloud.VICTIM}), the victim: costs 1.2 where noisy costs 0.6;" in told
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
    assert "only proposed escalations can be accepted" in refused.err


def test_profiles(lab):
    assert "vp.small 3 2 2 bulldog AHZwLnNtYWxs" in lab.run("vp profile list").words
    told = lab.run("vp profile show vp.small").words
    assert (
        "image none projects_count 2 vps_count 3 vp_class 2 bulldog classes 1 terrier: 1 servers"
        in told
    )
    by_id = lab.run("vp profile show AHZwLnNtYWxs -f json").json
    assert by_id["flavor"] == "vp.small"


def test_usage(lab):
    told = lab.run("vp usage list").words
    assert "2.02 0.0333 7.26 G 9.02 G 0.0069" in told
    assert "1 0.0167 3.6 G 4.5 G 0.0035" in told
    assert "55555555…" in told
    rows = lab.run(f"vp usage list --project {cloud.BETA} -f json").json
    assert rows == [
        {
            "server_id": cloud.NOISY,
            "project_id": cloud.BETA,
            "booked_s": 3600.0,
            "over_s": 60.0,
            "permit_misses": 3.6e9,
            "pollution_misses": 4.5e9,
            "cpu_taken_core_s": 12.5,
        }
    ]


def test_usage_with_hosts_and_attribution(lab):
    told = lab.run("vp usage list --long").words
    assert all(text in told for text in ("lab-1", "lab-2", "estimate", "sure 50%")), told
    row = lab.run("vp usage list --server victim --long -f json").json[0]
    assert row["hosts"] == ["lab-1", "lab-2"]
    assert row["attributed_misses"] == {"estimate": 2e7, "plain": 9e9}
    assert row["sure_misses"] == 9.01e9


def test_a_tenant_is_told_neither_hosts_nor_attribution(lab):
    [row] = lab.run("vp usage list --long -f json", user="member").json
    assert row.keys() == lab.run("vp usage list -f json", user="member").json[0].keys()


def test_usage_of_some_hours(lab):
    before = lab.run("vp usage list --server victim --end 2026-01-02T03:00 -f json").json
    assert [one["booked_s"] for one in before] == [3600.0]
    after = lab.run("vp usage list --server victim --start 2026-01-02T03:00 -f json").json
    assert [one["booked_s"] for one in after] == [3660.0]
    ordered = lab.run("vp usage list --sort project_id:desc --limit 1 -f json").json
    assert [one["project_id"] for one in ordered] == [cloud.GAMMA]


def test_a_tenant_lists_its_own_usage(lab):
    own = lab.run("vp usage list -f json", user="member").json
    assert [one["server_id"] for one in own] == [cloud.VICTIM]
    assert lab.run(f"vp usage list --project {cloud.BETA}", user="member").rc == 1


def is_silent(ran):
    return (ran.rc, ran.out, ran.err) == (0, "", "")


def overrides(lab):
    return lab.run("vp show victim -f json").json["overrides"]


def test_orders_of_an_operator(lab):
    assert is_silent(lab.run("vp set victim --priority 7 --mode observe"))
    assert (overrides(lab)["priority"], overrides(lab)["mode"]) == (7, "observe")
    assert overrides(lab)["by"] == "id-of-admin"
    assert is_silent(lab.run("vp unset victim --priority"))
    assert is_silent(lab.run("vp unset victim --mode"))
    assert (overrides(lab)["priority"], overrides(lab)["mode"]) == (None, None)


def test_an_exemption_is_an_operators(lab):
    for command, is_exempt in (
        ("vp set victim --exempt", True),
        ("vp set victim --no-exempt", False),
        ("vp set victim --exempt", True),
        ("vp unset victim --exempt", False),
    ):
        assert is_silent(lab.run(command))
        assert overrides(lab)["exempt"] is is_exempt
    refused = lab.run("vp set victim --exempt", user="member")
    assert (refused.rc, "HTTP 403" in refused.err) == (1, True)


def test_orders_of_a_tenant(lab):
    assert is_silent(lab.run("vp set victim --opt-out", user="member"))
    told = lab.run("vp explain victim", user="member")
    assert "Override: opted out: nothing is done for its sake." in told.words
    assert is_silent(lab.run("vp unset victim --opt-out", user="member"))
    assert overrides(lab)["opt_out"] is False
    refused = lab.run("vp set victim --mode enforce", user="member")
    assert refused.rc == 1
    assert "HTTP 403" in refused.err


def test_a_target_of_a_server_that_is_not_latency_critical_is_a_warning(lab):
    """It is kept, and would hold after a resize."""
    told = lab.run("vp set noisy --latency-target-ms 40")
    assert (told.rc, told.out) == (0, "")
    assert "noisy: stored, but of no effect" in told.err
    assert is_silent(lab.run("vp set victim --latency-target-ms 40"))


def test_an_order_that_its_host_has_not_heard_is_a_warning(lab, monkeypatch):
    monkeypatch.setitem(lab.agents.failing, "lab-1", oslo_messaging.MessagingTimeout())
    told = lab.run("vp set victim --priority 3")
    assert (told.rc, told.out) == (0, "")
    assert "victim: stored, and applied when its host next reports" in told.err
    assert "`openstack vp show victim`" in told.err, "a tenant may not list hosts"
    lab.run("vp unset victim --priority")


@pytest.mark.parametrize("user", ["admin", "member"])
def test_openstack_vp_lists_its_own_commands(lab, user):
    told = lab.run("vp", user=user)
    assert "vp action accept Accept proposed actions" in told.words
    listed = {row["Command"] for row in lab.run("vp -f json", user=user).json}
    assert "vp what-if" in listed
    assert all(name.startswith("vp ") for name in listed)
    for command in ("help vp", "vp --help"):
        told = lab.run(command)
        assert (told.rc, "  vp list" in told.out, "vpn" in told.out) == (0, True, False)


def test_a_command_that_is_none(lab):
    told = lab.run("vp lsit")
    assert told.rc == 1
    assert "There is no command `openstack vp lsit`. `openstack vp` lists the" in told.err


@pytest.mark.parametrize(
    ("command", "id_of"),
    [
        ("vp list", "Server ID"),
        ("vp list --sort name:desc", "Server ID"),
        ("vp host list", "Host"),
        ("vp action list", "ID"),
        ("vp escalation list", "ID"),
        ("vp profile list", "ID"),
        ("vp usage list", "server_id"),
        ("vp overlay list", "ID"),
    ],
)
def test_a_list_goes_on_after_a_marker(lab, command, id_of):
    whole = lab.run(f"{command} -f json").json
    assert lab.run(f"{command} -f json --marker {whole[0][id_of]}").json == whole[1:]
    unknown = lab.run(f"{command} --marker nobody")
    assert (unknown.rc, "the id of its last item" in unknown.err) == (1, True)


@pytest.mark.parametrize(
    ("command", "more"),
    [
        ("vp list", {"Project", "Isolation", "Since"}),
        ("vp action list", {"Project", "Settled"}),
        ("vp escalation list", {"Project", "Kind"}),
        ("vp host list", {"LLC domains", "NUMA nodes"}),
    ],
)
def test_a_long_list_only_adds_columns_for_machines(lab, command, more):
    short, long = (lab.run(f"{command} {option} -f json").json for option in ("", "--long"))
    assert short
    for before, after in zip(short, long, strict=True):
        assert after.keys() - before.keys() == more
        assert [*after][: len(before)] == [*before]


@pytest.mark.parametrize(
    ("command", "header"),
    [
        ("vp list", "Since"),
        ("vp action list", "Settled"),
        ("vp escalation list", "Kind"),
        ("vp host list", "LLC domains"),
    ],
)
def test_a_long_list_has_more_columns_within_the_width(lab, command, header):
    assert header in lab.run(f"{command} --long").words
    assert header not in lab.run(command).words


@pytest.mark.needs_controllers("vp")
def test_explain_to_an_operator(lab):
    told = lab.run("vp explain victim").words
    assert "reported by its host at 2026-01-02T03:04:02Z" in told
    assert "Last-level cache misses per 1000 instructions (MPKI): 20.5. Share of" in told
    assert "State 8 of 0 to 8 (bulldog), since 2026-01-02T03:03:35Z: it is memory-intensive" in told
    assert "Degraded Yes, since 2026-01-02T03:03:55Z: neighbours evict its data" in told
    assert "It loses 21.3% of its performance." in told
    assert f"Aggressor: noisy ({cloud.NOISY}), 1.5 M more misses/s than before." in told
    assert "noisy: CPUs 0-1 -> 2-3 (it degrades a neighbour)." in told
    assert "neighbour). Result: the degradation ended." in told
    assert f"live-migrate a server: `openstack vp escalation show {ESCALATION}`." in told
    assert "Proposed: noisy: cap none -> 90 % of each vCPU" in told
    assert "Rejected: noisy, moving its vCPUs: no CPU is free there." in told


def test_explain_of_who_hurts_another(lab):
    told = lab.run("vp explain noisy").words
    assert (
        f"aggressor: victim ({cloud.VICTIM}) has been degraded since 2026-01-02T03:03:55Z" in told
    )
    assert "Proposed: noisy: cap none -> 90 % of each vCPU" in told
    assert "No action is needed" not in told


def test_explain_to_an_operator_of_a_host_that_was_told_less(lab):
    told = lab.run("vp explain sleeper").words
    assert "It is sensitive to: neighbours that fill the last-level cache." in told
    assert "See `openstack vp host show lab-2`, and check that vp-agent runs on the host." in told


@pytest.mark.needs_controllers("vp")
def test_explain_to_a_tenant(lab):
    ran = lab.run("vp explain victim", user="member")
    assert f"victim ({cloud.VICTIM}) Measured CPUs in use: 1. Cycles per" in ran.words
    assert "Yes, by a neighbour, since 2026-01-02T03:03:00Z. It loses about 20%" in ran.words
    assert (
        "2026-01-02T03:03:00Z a neighbour was moved away. Result: the degradation ended."
        in ran.words
    )
    assert "as far as your operator allows." in ran.words
    assert "State 8 of 0 to 8, since" in ran.words
    assert not any(word in ran.out for word in (*NEIGHBOURS, "openstack vp"))
    stale = lab.run("vp explain sleeper", user="member").words
    assert "Measured There is no current measurement." in stale
    assert "If this persists, contact your operator." in stale


def test_a_project_is_given_by_its_name_too(lab, monkeypatch):
    monkeypatch.setattr(lab.keystone, "projects", {"shop": cloud.ALPHA})
    for project in ("shop", cloud.ALPHA):
        rows = lab.run(f"vp list --project {project} -f json").json
        within = f"vp list --project {project} --project-domain Default -f json"
        assert lab.run(within).json == rows
        assert {row["Name"] for row in rows} == {"victim", "sleeper"}
    elsewhere = lab.run("vp list --project shop --project-domain other")
    assert (elsewhere.rc, "Keystone returned no project 'shop'" in elsewhere.err) == (1, True)
    assert "Give --project with" in lab.run("vp list --project-domain other").err
    told = lab.run("vp action list --project shop")
    assert (told.rc, told.out.strip()) == (0, ""), told.err
    for user in ("admin", "member"):
        refused = lab.run("vp list --project nosuch", user=user)
        assert refused.rc == 1
        assert "Keystone returned no project 'nosuch'" in refused.err


def test_a_server_is_listed_by_the_name_that_nova_knows_now(lab):
    [row] = lab.run(f"vp list --name {RENAMED} -f json").json
    assert (row["Server ID"], row["Name"]) == (cloud.VICTIM, "victim")
    assert lab.run(f"vp list --name {RENAMED} --state 0 -f json").json == []
    assert lab.run("vp list --name nobody -f json").json == []


def test_a_tenant_is_told_which_roles_may(lab):
    refused = lab.run("vp set victim --mode observe", user="member")
    assert refused.rc == 1
    assert "with one of the roles that it names (admin)" in refused.err


def test_top_once(lab):
    table = lab.run("vp top --once").words
    assert "4 servers, 1 degraded by a neighbour" in table
    rows = table.partition("NOTE ")[2]
    assert rows.startswith("victim lab-1 8 bulldog, mf>0.6")
    assert "sleeper lab-2 unknown - ? soft stale" in rows
    assert "orphan lab-1 unknown - ? soft idle" in rows
    ran = lab.run("vp top --once", user="member")
    assert "SERVER STATE FOR DEGRADED" in ran.words
    assert not any(word in ran.out for word in NEIGHBOURS)
    assert "sleeper" not in lab.run("vp top --once --host lab-1").out


@pytest.mark.skipif(missing_for_terminal() is not None, reason=str(missing_for_terminal()))
def test_top_on_a_terminal(lab, monkeypatch):
    environment = [f"{name}={value}" for name, value in lab.environment().items()]
    command = ["env", *environment, OPENSTACK, "vp", "top", "--interval", "1"]
    with Terminal(command) as terminal:
        screen = terminal.wait_for("1 degraded by a neighbour")
        assert "victim" in screen
        monkeypatch.setattr(lab.balancer, "is_without_api", True)
        terminal.wait_for("showing the last answer: HTTP 503")
        # Its token counts no more, and keystone gives no other.
        monkeypatch.setattr(lab.balancer, "is_without_api", False)
        monkeypatch.setattr(lab.balancer, "application", webob.Response(status=401))
        monkeypatch.setattr(lab.keystone, "closed_projects", {cloud.ALPHA})
        terminal.wait_for("showing the last answer: There is no token for vp-api: no role")
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
    assert csv[1] == f"{cloud.VICTIM},victim,8,True,shop,8,latency-critical,10.0,8.5,0.2"


@pytest.mark.parametrize(
    ("command", "user", "said"),
    [
        ("vp action list", "member", "does not name any of your roles"),
        ("vp action list", "member", "`openstack vp action list --server SERVER` with --last"),
        ("vp action show nope", "admin", "`openstack vp action list` lists the stored actions"),
        ("vp escalation show nope", "admin", "`openstack vp escalation list` lists the stored"),
        ("vp profile show nope", "admin", "`openstack vp profile list` lists the known"),
        (
            "vp set victim",
            "admin",
            "Give at least one option; `--help` lists them.",
        ),
        ("vp set victim --priority 12", "admin", "invalid choice: 12"),
        (
            "vp history victim --last 3x",
            "admin",
            "'3x' is not a period; give a period such as 90s, 30m, 12h or 7d",
        ),
        ("vp history victim --last 999999d", "admin", "--last is too large; give a shorter period"),
        (
            "vp history victim --begin noon",
            "admin",
            "'noon' is not a time; give a time such as 2026-01-02T03:04:05Z",
        ),
        ("vp history victim --last 1h --begin 2026-01-01", "admin", "--last or --begin, not both"),
        ("vp list --sort fame", "admin", "'fame' is not a sort key; give one of server_id, name"),
        ("vp list --limit 0", "admin", "'0' is not a number of rows; give 1 or more"),
        ("vp top --once --host lab-9", "admin", "`openstack vp host list` lists the known hosts"),
        ("vp top", "admin", "a live view needs a terminal"),
        ("vp top --interval 0.1", "admin", "'0.1' is not an interval: use 1 to 3600 seconds"),
    ],
)
def test_errors_say_what_to_do(lab, command, user, said):
    ran = lab.run(command, user=user)
    assert ran.rc != 0
    assert said in " ".join(ran.err.split())
    assert "Traceback" not in ran.err
