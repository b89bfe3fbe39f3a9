# SPDX-License-Identifier: Apache-2.0
"""The real `openstack vp …` against the real application, with a small keystone between them."""

import sys
from pathlib import Path

import oslo_messaging
import pytest

from tests.install.guide import Command, sections
from tests.unit.api import cloud

OPENSTACK = Path(sys.executable).with_name("openstack")
TABLE_WIDTH = 100


def assert_fits(text):
    assert max(map(len, text.splitlines())) <= TABLE_WIDTH, text


def test_host_list(lab):
    table = lab.run("vp host list")
    assert table.rc == 0, table.err
    assert_fits(table.out)
    assert "| ?        | 6 min | yes" in table.out
    assert "| lab-1 | enforce | ssd         | vpmu" in table.out
    assert "| Servers | Degraded | Age" in table.out
    fresh, stale = lab.run("vp host list -f json").json
    assert fresh == {
        "Host": "lab-1",
        "Mode": "enforce",
        "Mode set by": "ssd",
        "Counters": "vpmu",
        "Problems": 0,
        "VPs": 3,
        "Hurt": 1,
        "Age": 3,
        "Stale": False,
    }
    assert (stale["Age"], stale["Stale"], stale["Problems"]) == (400, True, 1)


def test_the_installation_guide_shows_the_columns_of_today(lab):
    [shown] = [step for step in sections()["Controllers"].steps if is_host_list(step)]
    assert cells_of_header(shown.expected) == cells_of_header(lab.run("vp host list").out)


def is_host_list(step):
    return isinstance(step, Command) and step.text.endswith("vp host list")


def cells_of_header(table):
    return [cell.strip() for cell in table.splitlines()[1].split("|")]


def test_host_show(lab):
    table = lab.run("vp host show lab-1")
    assert table.rc == 0, table.err
    assert_fits(table.out)
    words = " ".join(table.out.replace("|", " ").split())
    assert "NUMA node 0, LLC domain 0: CPUs 0-1, 1.5 cores free, 1 vCPUs, 2.5 M misses/s" in words
    assert f"victim ({cloud.VICTIM}): 8 bulldog, mf>0.6, domain 0, degraded by a neighbour" in words
    assert "degraded by a neighbour, loses 21.3% by cache" in words
    assert f"orphan ({cloud.ORPHAN}): unknown (idle)" in words
    assert "6f1c2d3e-2: 2026-01-02T03:04:00Z proposed" in words
    assert "node 0: 3 M misses/s, limit 2 M, hot; summed MPKI 20.5" in words
    assert "node 1: 250 k misses/s, limit 2 M; summed" in words
    assert f"noisy ({cloud.NOISY}) to node 1 100 %: 256 of 1024 MiB moved" in words
    assert "6f1c2d3e-3: 2026-01-02T03:04:01Z for victim" in words
    host = lab.run("vp host show lab-1 -f json").json
    assert host["cells"][1]["domains"][0]["cpus"] == "2-3"
    losses = {vp["server_id"]: vp["degradation"] for vp in host["vps"]}
    assert (losses[cloud.VICTIM]["ratio"], losses[cloud.VICTIM]["kind"]) == (0.213, "cache")


def test_host_set(lab):
    done = lab.run("vp host set lab-1 --mode advise")
    assert (done.rc, done.out) == (0, "")
    assert lab.agents.modes == {"lab-1": "advise"}


def test_list_of_an_operator(lab):
    table = lab.run("vp list")
    assert table.rc == 0, table.err
    assert_fits(table.out)
    line = next(line for line in table.out.splitlines() if cloud.VICTIM in line)
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells == [
        cloud.VICTIM,
        "victim",
        "8 bulldog",
        "21.3%",
        "lab-1",
        "shop: 8",
        "8.5/10",
    ]
    assert "stale" in table.out
    values = lab.run("vp list --host lab-1 -f value -c Name -c State -c Host")
    assert values.out == "victim 8 lab-1\nnoisy 7 lab-1\norphan None lab-1\n"


def test_list_of_a_host_that_nobody_knows(lab):
    refused = lab.run("vp list --host lab-9")
    assert refused.rc != 0
    assert "lab-9" in refused.err
    assert "vp host list" in refused.err


def test_list_of_a_tenant(lab):
    servers = lab.run("vp list -f json", user="member").json
    told = ["Server ID", "Name", "State", "Hurt", "Group", "Group State"]
    told += ["Class", "Latency Target ms", "Latency ms", "Degradation"]
    assert [list(server) for server in servers] == [told] * 2
    csv = lab.run("vp list -f csv --quote none", user="member").out.splitlines()
    assert csv[:2] == [
        ",".join(told),
        f"{cloud.VICTIM},victim,8,True,shop,8,latency-critical,10.0,8.5,0.2",
    ]


@pytest.mark.needs_controllers("vp")
def test_show_to_an_operator(lab):
    table = lab.run("vp show victim")
    assert table.rc == 0, table.err
    assert_fits(table.out)
    words = " ".join(table.out.replace("|", " ").split())
    assert "state 8 bulldog, mf>0.6 since 2026-01-02T03:03:35Z" in words
    assert f"aggressor noisy ({cloud.NOISY}): +1.5 M misses/s" in words
    assert f"mended: noisy ({cloud.NOISY}), CPUs 0-1 -> 2-3" in words
    assert "cache: neighbours evict its data from the last-level cache, since" in words
    assert "rejected: noisy to domain 1 (moving its vCPUs: no CPU is free there, 25%)" in words
    assert "reason move-aggressor for victim: it degrades a neighbour" in words
    assert "neighbour; predicted degradation 2%; evidence" in words
    assert (
        "victim to domain 1 (moving its vCPUs: the predicted degradation is not lower, 30%)"
        in words
    )
    assert f"vp_id {cloud.ALPHA}/shop group shop" in words
    assert "priority 1 cap_floor_ratio 50% of each vCPU" in words
    assert "cap none memory node 0 100 % memory_obstacle none" in words
    assert "cap none -> 90 % of each vCPU until 2026-01-02T03:05:05Z; reason cap-agg" in words
    assert f"6f1c2d3e-3: 2026-01-02T03:04:01Z for victim ({cloud.VICTIM}); memory-contr" in words
    assert "rejected: noisy (capping its CPU: its cap is already at the floor" in words
    vp = lab.run("vp show victim -f yaml")
    assert "state: 8\n" in vp.out


def test_show_of_what_an_older_agent_reported(lab):
    table = lab.run("vp show sleeper")
    assert table.rc == 0, table.err
    words = " ".join(table.out.replace("|", " ").split())
    assert f"vp_id {cloud.SLEEPER} group none" in words
    assert "priority unknown cap_floor_ratio never capped" in words
    assert "cap unknown memory unknown" in words


@pytest.mark.needs_controllers("vp")
def test_show_to_a_tenant(lab):
    table = lab.run(f"vp show {cloud.VICTIM}", user="member")
    assert_fits(table.out)
    assert "2026-01-02T03:03:00Z a neighbour was moved away (mended)" in table.out
    for word in ("noisy", cloud.NOISY, "lab-1", "CPUs"):
        assert word not in table.out
    table = lab.run("vp show sleeper", user="member")
    words = " ".join(table.out.replace("|", " ").split())
    assert "state unknown since unknown" in words
    assert "last_known at 2026-01-02T02:57:00Z: state 0 pug, mf<0.25" in words
    assert "unmanaged yes, numa-topology: the flavor or image asks for a NUMA topology" in words
    vp = lab.run("vp show sleeper -f json", user="member").json
    assert vp["state"] is None
    assert vp["last_known"]["state"]["number"] == 0
    assert "host" not in vp


@pytest.mark.parametrize(
    ("command", "user", "said"),
    [
        ("vp host list", "member", "ask the operator to change the policy. (HTTP 403, req-"),
        ("vp host show lab-9", "admin", "`openstack vp host list` lists the known hosts"),
        ("vp show nobody", "admin", "`openstack vp list` lists the known servers"),
        (f"vp show {cloud.NOISY}", "member", "`openstack vp list` lists the known servers"),
        ("vp host set lab-1 --mode mad", "admin", "invalid choice: 'mad'"),
    ],
)
def test_errors_say_what_to_do(lab, command, user, said):
    ran = lab.run(command, user=user)
    assert ran.rc != 0
    assert said in ran.err
    assert "Traceback" not in ran.err


def test_an_agent_that_does_not_answer(lab):
    lab.agents.failing["lab-2"] = oslo_messaging.MessagingTimeout()
    ran = lab.run("vp host set lab-2 --mode observe")
    assert ran.rc == 1
    assert "Check that vp-agent runs on lab-2" in ran.err


def test_a_cloud_without_the_service(lab, monkeypatch):
    monkeypatch.setattr(lab.keystone, "endpoints", {"placement": "http://127.0.0.1:1"})
    ran = lab.run("vp list")
    assert ran.rc == 1
    assert "openstack service create --name nova-vp performance-isolation" in ran.err


def test_a_service_that_is_not_served(lab, monkeypatch):
    gone = {"performance-isolation": "http://127.0.0.1:1/v1"}
    monkeypatch.setattr(lab.keystone, "endpoints", gone)
    ran = lab.run("vp list")
    assert ran.rc == 1
    assert "vp-api does not answer at http://127.0.0.1:1" in ran.err
