# SPDX-License-Identifier: Apache-2.0
"""Decisions become valid messages of bounded size, and only real changes are news."""

import json
import math
import random
from dataclasses import replace
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_vp import wire
from nova_vp.core.types.action import Change
from nova_vp.core.types.claim import Alternative, PredictedLoss
from nova_vp.core.types.cpu_time import CpuUse
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.guest import Isolation, MemoryMove, Unmanaged
from nova_vp.core.types.knob import NO_QUOTA, Knob, Quota
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.reason import Rejection, Rung
from nova_vp.core.types.sample import Sensitivity, State
from nova_vp.core.types.service_level import ClassRoom, ServiceClass
from nova_vp.service_levels import NO_SERVICE, RECENT_S, service_of
from nova_vp.wire.digest import RESOURCES
from tests.decisions import (
    PROFILE,
    SAMPLE,
    a_decision,
    a_detection,
    a_domain_view,
    a_guest,
    a_node,
    a_view,
    an_action,
    an_escalation,
    an_eventful_view,
    facts,
    uuid_of,
)
from vp_agent.loop.latency_reports import Came, KnownReports, Reported
from vp_agent.publish.change_filter import is_material_change
from vp_agent.publish.digest import digest
from vp_agent.publish.report import cpu_list, report

ORDER = wire.MessageVersion(3, 7)
A_MOVE = MemoryMove(uuid_of(2), ((1, 1.0),), moved_kib=10, left_kib=30)
AT_THE_LINK = replace(a_detection(), kind=Kind.LINK)


def sent_digest(decision: Any = None, facts_: Any = None, now_s: float = 10.0) -> dict[str, Any]:
    message = digest(decision or a_decision(), facts_ or facts(), ORDER, now_s)
    return wire.decode(wire.DIGEST_TOPIC, wire.encode(wire.DIGEST_TOPIC, message))


def sent_report(decision: Any, facts_: Any = None) -> dict[str, Any]:
    message = report(decision, facts_ or facts(), ORDER)
    return wire.decode(wire.REPORT_TOPIC, wire.encode(wire.REPORT_TOPIC, message))


def test_digest() -> None:
    message = sent_digest(
        a_decision(mode=Mode.ENFORCE), facts(stopped_servers=frozenset({uuid_of(9)})), now_s=12.5
    )
    assert (message["host"], message["epoch"], message["seq"]) == ("vp1", 3, 7)
    assert (message["mode"], message["homing"], message["age_ms"]) == ("enforce", True, 2500)
    assert message["domains"][0] == {
        "id": 0,
        "free_mcores": 1500,
        "cpus": 8,
        "vcpus": 4,
        "newcomer": [0] * 10,
        "resident": [0] * 9 + [20],
        "strict": [0] * 9 + [10],
        "resources": 0,
    }
    known = wire.unpack_known(message["known"])
    assert known == wire.marks_of(uuid_of(n) for n in (1, 2, 9))


def test_a_digest_names_the_resource_that_costs_each_newcomer_class_most() -> None:
    kinds = (*RESOURCES, None, Kind.CPU, Kind.CACHE, Kind.LINK)
    table = tuple(PredictedLoss(0.5, 0.0, resource=kind) for kind in kinds)
    decision = a_decision()
    view = replace(decision.domains[0], table=table)
    [domain] = sent_digest(replace(decision, domains=(view,)))["domains"]
    told = [wire.resource_in(domain["resources"], number) for number in range(len(kinds))]
    assert told == list(kinds)


def test_a_resource_of_a_later_release_has_no_name() -> None:
    assert wire.resource_in(0o7, 0) is None
    assert wire.resource_in(len(RESOURCES), 0) is None
    assert wire.resource_in(len(RESOURCES) - 1, 0) is RESOURCES[-1]


def test_a_digest_says_what_each_server_is_when_nobody_disturbs_it() -> None:
    pug = State.from_number(0)
    views = [
        a_view(1),
        a_view(2, undisturbed=PROFILE._replace(state=pug)),
        a_view(3, undisturbed=PROFILE._replace(state=pug, sensitivity=Sensitivity())),
        a_view(4, undisturbed=None),
    ]
    message = sent_digest(a_decision(*views), facts(stopped_servers=frozenset({uuid_of(9)})))
    known = wire.unpack_known(message["known"])
    classes = wire.unpack_classes(message["classes"], known)
    told = dict(zip(wire.split_marks(known), classes, strict=True))
    expected = {1: 1, 2: 1, 3: 0, 4: wire.UNKNOWN_CLASS, 9: wire.UNKNOWN_CLASS}
    assert told == {wire.mark_of(uuid_of(n)): number for n, number in expected.items()}


def test_a_digest_says_where_each_server_lives_and_who_is_strict() -> None:
    strict = a_view(2)._replace(domain_ids=(1,))
    views = [
        a_view(1)._replace(domain_ids=(0,)),
        strict._replace(guest=strict.guest._replace(isolation=Isolation.STRICT)),
        a_view(3)._replace(domain_ids=(0, 1)),
        a_view(4)._replace(domain_ids=(500,)),
    ]
    message = sent_digest(a_decision(*views), facts(stopped_servers=frozenset({uuid_of(9)})))
    known = wire.unpack_known(message["known"])
    seats = wire.unpack_seats(message["seats"], known)
    told = dict(zip(wire.split_marks(known), seats, strict=True))
    expected = {1: 0, 2: 1 | wire.STRICT_SEAT, 3: wire.SEVERAL, 4: wire.SEVERAL, 9: wire.NOWHERE}
    assert told == {wire.mark_of(uuid_of(n)): seat for n, seat in expected.items()}


def test_of_two_servers_that_look_alike_either_may_be_meant() -> None:
    dice = random.Random(1)
    alike: dict[bytes, str] = {}
    while True:
        one = str(UUID(int=dice.getrandbits(128)))
        if (other := alike.setdefault(wire.mark_of(one), one)) != one:
            break
    known = wire.marks_of([one, other])
    packed = wire.pack_seats({one: 0, other: 1})
    assert [*wire.unpack_seats(packed, known)] == [wire.SEVERAL | wire.STRICT_SEAT]
    with pytest.raises(wire.BadMessage, match="seats: 1 bytes for 2"):
        wire.unpack_seats(packed, known * 2)


@pytest.mark.parametrize(
    ("is_homing", "kept"), [(True, [4, 5, 6]), (False, [0, 1, 2])], ids=["best", "worst"]
)
def test_a_digest_keeps_the_domains_that_decide(is_homing: bool, kept: list[int]) -> None:
    views = [a_view(n) for n in range(100)]
    domains = tuple(a_domain_view(n, newcomer=0.7 - n / 10) for n in range(7))
    decision = a_decision(*views, domains=domains)
    message = sent_digest(decision, facts(is_homing=is_homing))
    assert [domain["id"] for domain in message["domains"]] == kept
    assert "seats" not in message
    assert len(wire.compact(message)) <= wire.DIGEST_BYTES


def test_a_digest_says_what_is_booked_in_each_domain_of_the_host() -> None:
    booked = {6: 1900.5, 2: 100.0}
    domains = tuple(
        replace(a_domain_view(n, newcomer=0.7 - n / 10), llc_permits=booked.get(n, 0.0))
        for n in (3, 2, 1, 0, 6, 5, 4)
    )
    message = sent_digest(a_decision(*[a_view(n) for n in range(100)], domains=domains))
    assert message["permits"] == [0, 0, 100, 0, 0, 0, 1901]
    assert len(message["domains"]) < 7
    assert len(wire.compact(message)) <= wire.DIGEST_BYTES


def test_a_digest_of_a_host_that_sold_none_is_as_small_as_before() -> None:
    assert "permits" not in sent_digest(a_decision(a_view(), domains=(a_domain_view(),)))


ROOM = ClassRoom(3.5, 12, 20.25)


def test_a_digest_says_what_servers_of_either_class_would_find() -> None:
    decision = a_decision(a_view(), class_room=ROOM)
    message = sent_digest(decision, facts(serves_classes=True))
    assert message["service"] == [3500, 12, 20250]
    assert "starved" not in message


def test_it_says_whose_latency_critical_servers_are_not_protected() -> None:
    decision = a_decision(a_view(), class_room=ROOM._replace(starved=frozenset({"p1"})))
    message = sent_digest(decision, facts(serves_classes=True))
    assert wire.unpack_known(message["starved"]) == wire.mark_of("p1")


def test_a_host_that_serves_no_classes_says_so_and_one_that_could_not_look_says_nothing() -> None:
    assert sent_digest(a_decision(a_view()))["service"] == []
    assert "service" not in sent_digest(a_decision(a_view()), facts(serves_classes=True))


def test_a_digest_of_a_full_host_with_classes_is_as_small() -> None:
    views = [a_view(n) for n in range(100)]
    domains = tuple(a_domain_view(n, newcomer=0.7 - n / 10) for n in range(7))
    room = ClassRoom(1e3, 4096, 1e3, frozenset(map(str, range(50))))
    decision = a_decision(*views, domains=domains, class_room=room)
    message = sent_digest(decision, facts(serves_classes=True))
    assert message["domains"]
    assert len(wire.compact(message)) <= wire.DIGEST_BYTES


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, False),
        ({"best_effort_cores": 5.0}, False),
        ({"best_effort_cores": 5.5}, True),
        ({"latency_critical_cores": 18.0}, True),
        ({"best_effort_vcpus": 13}, True),
        ({"starved": frozenset({"p1"})}, True),
    ],
)
def test_room_that_moved_much_is_news(change: dict[str, Any], expected: bool) -> None:
    before, after = (a_decision(class_room=one) for one in (ROOM, ROOM._replace(**change)))
    assert is_material_change(before, after) is expected


def test_a_tick_that_says_nothing_of_room_is_no_news() -> None:
    told, silent = a_decision(class_room=ROOM), a_decision()
    assert not is_material_change(told, silent)
    assert is_material_change(silent, told)


def test_what_is_booked_is_news() -> None:
    before, after = (
        a_decision(a_view(), domains=(replace(a_domain_view(), llc_permits=permits),))
        for permits in (0.0, 900.0)
    )
    assert not is_material_change(before, before)
    assert is_material_change(before, after)
    assert sent_report(after)["domains"][0]["llc_permits"] == 900.0


def test_a_digest_of_very_many_servers_still_names_a_domain() -> None:
    message = sent_digest(a_decision(*[a_view(n) for n in range(500)]))
    assert len(message["domains"]) == 1


@given(st.integers(0, 400), st.integers(0, 64))
def test_any_digest_can_be_sent(servers: int, domains: int) -> None:
    decision = a_decision(
        *[a_view(n) for n in range(servers)], domains=tuple(map(a_domain_view, range(domains)))
    )
    assert len(sent_digest(decision)["domains"]) >= min(domains, 1)


def test_report() -> None:
    decision = a_decision(an_eventful_view(), a_view(2, None, sample=None, since_s=None))
    message = sent_report(replace(decision, proposals=(an_action("p1"),)), facts(problems=("x",)))
    victim, other = message["vps"]
    assert message["at"] == 1.8e9 + 10
    assert message["counters"] == {"source": "vpmu", "problems": ["x"]}
    assert message["domains"][1]["cpus"] == "8-15"
    assert message["domains"][1]["newcomer_losses"] == {
        "cache": [0.0] * 9 + [0.02],
        "cpu": [0.125] * 10,
    }
    assert victim["state"] == 7
    assert victim["since"] == 1.8e9 + 5
    assert victim["sensitivity"] == ["cache"]
    assert victim["interference"] == {
        "kind": "cache",
        "since": 1.8e9 + 8,
        "suspects": [{"uuid": uuid_of(2), "rise_per_s": 1e6}],
        "refused": [],
        "loss_ratio": 0.25,
    }
    assert victim["actions"][-1] == {
        "id": "a2",
        "at": 1.8e9 + 12,
        "settled_at": None,
        "controller": "vp",
        "uuid": uuid_of(2),
        "victim": uuid_of(1),
        "reason": "move-in-a-test",
        "result": "applied",
        "detail": "moved",
        "from_cpus": "0-7",
        "to_cpus": "8-15",
        "domains": [1],
        "hurt_ratio": 0.03,
        "rung": "move-vcpus",
        "on_behalf_of": None,
        "changes": [
            {
                "uuid": uuid_of(2),
                "knob": "placement",
                "from": "0-7",
                "to": "8-15",
                "until": None,
            }
        ],
        "evidence": {"rise_per_s": 1e6},
        "rejected": [
            {
                "uuid": uuid_of(1),
                "domain": 1,
                "rung": "move-vcpus",
                "why": "no-free-cpu",
                "hurt_ratio": 0.2,
            }
        ],
    }
    assert (other["state"], other["metrics"], other["since"]) == (None, None, None)
    assert message["proposals"][0]["result"] == "proposed"


def test_a_report_says_what_each_server_asks_and_holds() -> None:
    modest = a_guest(
        2,
        group="shop",
        priority=2.5,
        cap_floor_ratio=0.8,
        quota=Quota(45_000),
        memory_by_node=((0, 3 << 20), (1, 1 << 20)),
        memory_obstacle="huge pages",
    )
    lone, other = sent_report(a_decision(a_view(1), a_view(2, guest=modest)))["vps"]
    names = ("vp_id", "group", "priority", "cap_floor_ratio", "cap", "memory", "memory_obstacle")
    assert [lone[name] for name in names] == [uuid_of(1), "", 1, None, "none", "unknown", ""]
    assert [other[name] for name in names] == [
        f"{modest.project_id}/shop",
        "shop",
        2.5,
        0.8,
        "45 % of each vCPU",
        "node 0 75 %, node 1 25 %",
        "huge pages",
    ]


def test_a_report_says_how_long_servers_wait_and_by_whom_they_are_throttled() -> None:
    use = CpuUse(
        at_s=9.0,
        samples=3,
        ran_cores=0.5,
        run_delay_cores=0.5,
        throttled_ours_cores=0.1,
        throttled_nova_cores=0.275,
    )
    message = sent_report(a_decision(a_view(1, cpu_use=use), a_view(2), steal_ratio=0.25))
    waiting, unknown = message["vps"]
    assert waiting["cpu_use"] == {
        "waiting_ratio": 0.2,
        "throttled_ratio_ours": 0.1,
        "throttled_ratio_nova": 0.275,
    }
    assert unknown["cpu_use"] is None
    assert message["steal_ratio"] == 0.25
    assert sent_report(a_decision())["steal_ratio"] is None


def test_a_report_says_what_controllers_tell_of_a_server() -> None:
    told = {"permits": {"standing": "over", "balance_s": -4.0, "misses_per_ms": math.inf}}
    message = sent_report(a_decision(a_view(1, figures=told), a_view(2)))
    assert [vp["figures"] for vp in message["vps"]] == [
        {"permits": {"standing": "over", "balance_s": -4.0}},
        {},
    ]


@pytest.mark.parametrize(
    "figures",
    [{"P": {}}, {"permits": {"a-b": 1}}, {"permits": {"a": "x" * 65}}, {"permits": {"a": None}}],
)
def test_figures_that_are_none_are_refused(figures) -> None:
    message = sent_report(a_decision(a_view(1)))
    message["vps"][0]["figures"] = figures
    with pytest.raises(wire.BadMessage):
        wire.decode(wire.REPORT_TOPIC, json.dumps(message))


def test_a_report_says_who_the_host_is_for_placement_and_what_each_server_is_made_of() -> None:
    image = "0e1d6e3e-9f4b-4f4f-8c8e-3a8a5d3b1c11"
    views = (a_view(1, guest=a_guest(1, image=image)), a_view(2))
    message = sent_report(a_decision(*views), facts(hypervisor="vp1.example.org"))
    assert message["hypervisor"] == "vp1.example.org"
    assert [(vp["image"], vp["memory_kib"]) for vp in message["vps"]] == [
        (image, 65536),
        ("", 65536),
    ]


def test_a_report_says_what_is_turned_on_whom_until_when() -> None:
    cap = Change(uuid_of(2), Knob.CPU_CAP, Quota(90_000), NO_QUOTA, NO_QUOTA, until_s=40.0)
    room = Change(uuid_of(3), Knob.MEMORY, ((1, 1.0),), ((0, 1.0),), ((0, 1.0),))
    proposal = an_action(changes=(cap, room), rung=Rung.SWAP, on_behalf_of=uuid_of(4))
    (action,) = sent_report(a_decision(proposals=(proposal,)))["proposals"]
    assert (action["rung"], action["on_behalf_of"]) == ("swap", uuid_of(4))
    assert (action["from_cpus"], action["to_cpus"]) == ("", "")
    assert action["changes"] == [
        {
            "uuid": uuid_of(2),
            "knob": "cpu-cap",
            "from": "none",
            "to": "90 % of each vCPU",
            "until": 1.8e9 + 40,
        },
        {
            "uuid": uuid_of(3),
            "knob": "memory",
            "from": "node 0 100 %",
            "to": "node 1 100 %",
            "until": None,
        },
    ]


def test_a_report_names_a_domain_only_where_somebody_would_have_gone() -> None:
    rejected = tuple(
        Alternative(uuid_of(1), 3, Rejection.BUDGET, rung=rung) for rung in (Rung.SWAP, Rung.CAP)
    )
    message = sent_report(a_decision(proposals=(an_action(rejected=rejected),)))
    told = message["proposals"][0]["rejected"]
    assert [(one["rung"], one["domain"]) for one in told] == [("swap", 3), ("cap", None)]


def test_a_report_says_what_becomes_of_the_hosts_memory() -> None:
    decision = a_decision(
        nodes=(a_node(limit_misses_per_s=2e6), a_node(1, is_hot=True)),
        memory_moves=(MemoryMove(uuid_of(2), ((1, 1.0),), 10, 30, True, "no room"),),
        escalations=(an_escalation(evidence={"gain": 0.1, "broken": float("inf")}),),
    )
    message = sent_report(decision)
    node = {"node": 0, "misses_per_s": 1e6, "mpki": 20.0, "limit_misses_per_s": 2e6}
    assert message["nodes"] == [
        {**node, "is_hot": False},
        {**node, "node": 1, "limit_misses_per_s": None, "is_hot": True},
    ]
    assert message["memory_moves"] == [
        {
            "uuid": uuid_of(2),
            "to": "node 1 100 %",
            "moved_kib": 10,
            "left_kib": 30,
            "is_over": True,
            "problem": "no room",
        }
    ]
    (escalation,) = message["escalations"]
    assert (escalation["at"], escalation["since"]) == (1.8e9 + 9, 1.8e9 + 3)
    assert (escalation["victim"], escalation["kind"]) == (uuid_of(1), "memory-controller")
    assert escalation["evidence"] == {"gain": 0.1}
    assert escalation["rejected"][0]["why"] == "move-budget-spent"


@pytest.mark.parametrize("kind", Kind)
def test_every_kind_of_detection_can_be_sent(kind: Kind) -> None:
    view = a_view(detection=replace(a_detection(), kind=kind))
    message = sent_report(a_decision(view, escalations=(an_escalation(kind=kind),)))
    assert message["vps"][0]["interference"]["kind"] == kind.value


def test_a_report_of_an_agent_that_says_no_more_than_the_first_is_heard() -> None:
    message = sent_report(a_decision(an_eventful_view(), proposals=(an_action(),)))
    for name in ("nodes", "memory_moves", "escalations", "steal_ratio"):
        del message[name]
    for vp in message["vps"]:
        for name in ("vp_id", "group", "priority", "cap_floor_ratio", "cap", "memory"):
            del vp[name]
        del vp["memory_obstacle"], vp["cpu_use"]
    for action in [*message["proposals"], *message["vps"][0]["actions"]]:
        for name in ("changes", "rung", "on_behalf_of"):
            del action[name]
        for one in action["rejected"]:
            del one["rung"]
    assert wire.decode(wire.REPORT_TOPIC, wire.encode(wire.REPORT_TOPIC, message)) == message


def test_counters_gone_wild_keep_nobody_from_hearing_of_the_host() -> None:
    sample = SAMPLE._replace(misses_per_s=2.0**64, cpi=1e300, mpki=-(2.0**64))
    wild = an_action(evidence={"rise_per_s": 1e19, "fall_per_s": -1e300})
    message = sent_report(a_decision(a_view()._replace(sample=sample), proposals=(wild,)))
    metrics = message["vps"][0]["metrics"]
    assert [metrics[name] for name in ("misses_per_s", "cpi", "mpki")] == [1e18, 1e18, 0]
    assert message["proposals"][0]["evidence"] == {"rise_per_s": 1e18, "fall_per_s": -1e18}


def test_a_report_cuts_what_is_too_long() -> None:
    guest = a_guest(
        name="n" * 300,
        unmanaged=Unmanaged.INVALID_SPEC,
        unmanaged_detail="d" * 2000,
        placement=frozenset(range(0, 1000, 2)),
    )
    view = an_eventful_view(actions=40)._replace(guest=guest)
    message = sent_report(a_decision(view), facts(problems=("p" * 2000,) * 40))
    assert len(message["vps"][0]["actions"]) == 16
    assert len(message["vps"][0]["cpus"]) <= 255


@pytest.mark.parametrize(
    ("label", "change", "expected"),
    [
        ("nothing", {}, False),
        ("time", {"at_s": 11.0}, False),
        ("mode", {"mode": Mode.ENFORCE}, True),
        ("a guest more", {"vps": (a_view(1), a_view(2), a_view(3))}, True),
        ("a state", {"vps": (a_view(1, 7), a_view(2))}, True),
        ("a place", {"vps": (a_view(1, domain_ids=(1,)), a_view(2))}, True),
        ("interference", {"vps": (an_eventful_view(), a_view(2))}, True),
        ("a proposal", {"proposals": (an_action(),)}, True),
        ("little more loss", {"domains": (a_domain_view(0, 0.01), a_domain_view(1))}, False),
        ("more loss", {"domains": (a_domain_view(0, 0.03), a_domain_view(1))}, True),
        (
            "little less free CPU",
            {"domains": (a_domain_view(0, free_cores=1.2), a_domain_view(1))},
            False,
        ),
        ("less free CPU", {"domains": (a_domain_view(0, free_cores=0.9), a_domain_view(1))}, True),
        ("a domain less", {"domains": (a_domain_view(0),)}, True),
        ("a node busier", {"nodes": (a_node(), a_node(1, misses_per_s=9e9))}, False),
        ("a node hot", {"nodes": (a_node(), a_node(1, is_hot=True))}, True),
        ("memory on its way", {"memory_moves": (A_MOVE,)}, True),
        ("an escalation", {"escalations": (an_escalation(),)}, True),
        ("another kind", {"vps": (a_view(detection=AT_THE_LINK), a_view(2))}, True),
    ],
)
def test_news(label: str, change: dict[str, Any], expected: bool) -> None:
    before = a_decision(nodes=(a_node(), a_node(1)))
    assert is_material_change(before, replace(before, **change)) is expected, label


def test_memory_that_moves_on_is_no_news_until_it_is_over() -> None:
    before = a_decision(memory_moves=(A_MOVE,))
    further = replace(A_MOVE, moved_kib=20, left_kib=20)
    assert not is_material_change(before, replace(before, memory_moves=(further,)))
    assert is_material_change(
        before, replace(before, memory_moves=(replace(further, is_over=True),))
    )


def test_hurt_somewhere_else_is_news() -> None:
    before = a_decision(a_view(detection=a_detection()))
    assert is_material_change(before, replace(before, vps=(a_view(detection=AT_THE_LINK),)))


@pytest.mark.parametrize(
    ("cpus", "text"), [([], ""), ([3], "3"), ([0, 1, 2, 5, 8, 7], "0-2,5,7-8")]
)
def test_cpu_list(cpus: list[int], text: str) -> None:
    assert cpu_list(cpus) == text


CRITICAL = a_guest(
    1,
    service_class=ServiceClass.LATENCY_CRITICAL,
    latency_target_ms=10.0,
    latency_percentile=99.0,
    max_load=450_000.0,
)
CRITICAL_SERVICE = {
    "class": "latency-critical",
    "latency_target_ms": 10.0,
    "latency_percentile": 99.0,
    "max_load": 450_000.0,
    "may_suspend": False,
    "reported": None,
    "used": 0,
    "ignored": {},
}


def test_the_report_says_what_a_server_is_for_and_how_it_answered() -> None:
    known = KnownReports(
        {CRITICAL.uuid: Reported(8.5, None, 4.0)},
        {CRITICAL.uuid: Came(1, 6, {"late": 2})},
        {CRITICAL.project_id: Came(2, 7, {"late": 3})},
    )
    told = sent_report(a_decision(a_view(1, guest=CRITICAL), a_view(2)), facts(latency=known))
    critical, other = told["vps"]
    reported = {"at": 1.8e9 + 4, "latency_ms": 8.5, "load": None}
    assert critical["service"] == {
        **CRITICAL_SERVICE,
        "reported": reported,
        "used": 6,
        "ignored": {"late": 2},
    }
    assert other["service"] is None
    [project] = told["latency_projects"]
    assert project == {
        "project_id": CRITICAL.project_id,
        "servers": 2,
        "used": 7,
        "ignored": {"late": 3},
    }
    assert service_of(told, critical) == ("latency-critical", 10.0, 8.5)


def test_who_reports_nothing_has_a_class_all_the_same() -> None:
    told = sent_report(a_decision(a_view(1, guest=CRITICAL)))
    assert told["vps"][0]["service"] == CRITICAL_SERVICE
    assert service_of(told, told["vps"][0]) == ("latency-critical", 10.0, None)


@pytest.mark.parametrize(
    ("service_class", "expected"), [("best-effort", True), ("latency-critical", False)]
)
def test_only_best_effort_servers_may_be_suspended(service_class: str, expected: bool) -> None:
    guest = a_guest(1, service_class=ServiceClass(service_class), may_suspend=True)
    told = sent_report(a_decision(a_view(1, guest=guest)))
    assert told["vps"][0]["service"]["may_suspend"] is expected


def test_lists_tell_no_latency_of_long_ago() -> None:
    known = KnownReports({CRITICAL.uuid: Reported(8.5, None, 9.0 - RECENT_S)}, {}, {})
    told = sent_report(a_decision(a_view(1, guest=CRITICAL)), facts(latency=known))
    assert service_of(told, told["vps"][0]).latency_ms is None


def test_an_agent_of_the_release_before_says_nothing_of_classes() -> None:
    told = sent_report(a_decision())
    assert service_of(told, told["vps"][0]) == NO_SERVICE
    assert service_of(told, {}) == NO_SERVICE


@pytest.mark.parametrize(
    "ignored",
    [{"k" * 65: 1}, {f"k{number}": 1 for number in range(17)}, {"late": -1}],
    ids=["long", "many", "negative"],
)
def test_reasons_why_reports_were_not_used_are_bounded(ignored: dict[str, int]) -> None:
    known = KnownReports({}, {}, {CRITICAL.project_id: Came(1, 0, {"late": 1})})
    message = sent_report(a_decision(a_view(1, guest=CRITICAL)), facts(latency=known))
    for place in (message["vps"][0]["service"], message["latency_projects"][0]):
        told, place["ignored"] = place["ignored"], ignored
        with pytest.raises(wire.BadMessage):
            wire.decode(wire.REPORT_TOPIC, json.dumps(message))
        place["ignored"] = told
    assert wire.decode(wire.REPORT_TOPIC, json.dumps(message)) == message
