# SPDX-License-Identifier: Apache-2.0
"""Decisions become valid messages of bounded size, and only real changes are news."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_vp import wire
from nova_vp.core.model import Mode, Unmanaged
from tests.decisions import (
    a_decision,
    a_domain_view,
    a_guest,
    a_view,
    an_action,
    an_eventful_view,
    facts,
    uuid_of,
)
from vp_agent.digest import digest
from vp_agent.news import is_news
from vp_agent.report import cpu_list, report

ORDER = wire.Order(3, 7)


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
    }
    known = wire.unpack_known(message["known"])
    assert known == {wire.mark_of(uuid_of(n)) for n in (1, 2, 9)}


@pytest.mark.parametrize(
    ("is_homing", "kept"), [(True, [3, 4, 5, 6]), (False, [0, 1, 2, 3])], ids=["best", "worst"]
)
def test_a_digest_keeps_the_domains_that_decide(is_homing: bool, kept: list[int]) -> None:
    views = [a_view(n) for n in range(100)]
    domains = tuple(a_domain_view(n, newcomer=0.7 - n / 10) for n in range(7))
    decision = a_decision(*views, domains=domains)
    message = sent_digest(decision, facts(is_homing=is_homing))
    assert [domain["id"] for domain in message["domains"]] == kept
    assert len(wire.compact(message)) <= wire.DIGEST_BYTES


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
    assert victim["state"] == 7
    assert victim["since"] == 1.8e9 + 5
    assert victim["sensitivity"] == ["cache"]
    assert victim["interference"] == {
        "kind": "cache",
        "since": 1.8e9 + 8,
        "suspects": [{"uuid": uuid_of(2), "rise_per_s": 1e6}],
        "refused": [],
    }
    assert victim["actions"][-1] == {
        "id": "a2",
        "at": 1.8e9 + 12,
        "controller": "vp",
        "uuid": uuid_of(2),
        "victim": uuid_of(1),
        "reason": "move-aggressor",
        "result": "applied",
        "detail": "moved",
        "from_cpus": "0-7",
        "to_cpus": "8-15",
        "domains": [1],
        "hurt_ratio": 0.03,
        "evidence": {"rise_per_s": 1e6},
        "rejected": [{"uuid": uuid_of(1), "domain": 1, "why": "no-free-cpu", "hurt_ratio": 0.2}],
    }
    assert (other["state"], other["metrics"], other["since"]) == (None, None, None)
    assert message["proposals"][0]["result"] == "proposed"


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
    ],
)
def test_news(label: str, change: dict[str, Any], expected: bool) -> None:
    assert is_news(a_decision(), replace(a_decision(), **change)) is expected, label


@pytest.mark.parametrize(
    ("cpus", "text"), [([], ""), ([3], "3"), ([0, 1, 2, 5, 8, 7], "0-2,5,7-8")]
)
def test_cpu_list(cpus: list[int], text: str) -> None:
    assert cpu_list(cpus) == text
