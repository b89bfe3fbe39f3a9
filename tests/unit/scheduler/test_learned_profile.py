# SPDX-License-Identifier: Apache-2.0
"""A learned profile speaks for a newcomer only: with it no host is worse for the newcomer than
without.
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from nova import objects

from tests.messages import a_domain, digest_text, hear, profiles_text
from tests.unit.scheduler.cloud import UUID, Cloud, a_host, a_request

pytestmark = pytest.mark.nova

OTHER = UUID.format(2)
IMAGE = UUID.format(77)
ISOLATIONS = ("strict", "soft", "none")
LOSSES = st.sampled_from([0, 20, 50, 51, 100, 310, 800, 1000])


def tables(newcomer: list[int], resident: list[int], strict: list[int], id: int = 0) -> Any:
    """A domain, by newcomer class in thousandths."""
    domain = a_domain(id)
    return domain | {"newcomer": newcomer, "resident": resident, "strict": strict}


def by_class(of_class: dict[int, int], otherwise: int) -> list[int]:
    return [of_class.get(number, otherwise) for number in range(10)]


def lost(own: Any = (), resident: Any = (), strict: Any = (), otherwise: int = 0) -> Any:
    """One domain; each a class and what is lost there."""
    return [tables(*(by_class(dict(one), otherwise) for one in (own, resident, strict)))]


def a_cloud(learned: int | None, **digests: Any) -> Cloud:
    cloud = Cloud(**digests)
    if learned is not None:
        rows = [("f1", IMAGE, learned)]
        cloud.view.learned.accept(profiles_text(*rows))
    return cloud


def asks(isolation: str, vcpus: int = 1) -> Any:
    return a_request(isolation, vcpus, fields={"image": objects.ImageMeta(id=IMAGE)})


def passes(cloud: Cloud, vcpus: int = 1) -> bool:
    return cloud.passing(asks("strict", vcpus), [a_host("vp1")]) == ["vp1"]


def test_a_bad_profile_costs_a_newcomer_no_host() -> None:
    """The profile says that it would be degraded and would degrade strict servers."""
    host = lost(own=[(2, 310)], resident=[(2, 310)], strict=[(2, 310)])
    assert passes(a_cloud(None, vp1=host))
    assert passes(a_cloud(2, vp1=host))


@pytest.mark.parametrize("isolation", ISOLATIONS)
def test_a_bad_profile_changes_no_order_of_hosts(isolation: str) -> None:
    first = lost(own=[(2, 310)], resident=[(2, 310)], strict=[(2, 310)])
    second = lost(own=[(9, 200)], resident=[(9, 200)], strict=[(9, 200)])
    hosts = [a_host("vp1"), a_host("vp2")]
    expected = a_cloud(None, vp1=first, vp2=second).ranked(asks(isolation), hosts)
    assert list(expected) == ["vp1", "vp2"]
    assert list(a_cloud(2, vp1=first, vp2=second).ranked(asks(isolation), hosts)) == ["vp1", "vp2"]


def test_a_quiet_profile_opens_hosts_where_only_others_would_be_degraded() -> None:
    host = lost(strict=[(9, 310)], resident=[(9, 310)])
    assert not passes(a_cloud(None, vp1=host))
    assert passes(a_cloud(0, vp1=host))


def test_a_quiet_profile_takes_no_protection_away() -> None:
    """The newcomer itself would be degraded if it is not what others' servers are."""
    assert not passes(a_cloud(0, vp1=lost(own=[(9, 310)])))


def test_the_domain_is_the_one_that_its_agent_chooses() -> None:
    """The agent knows no learned profile: it homes the newcomer as unknown."""
    quiet = by_class({}, 0)
    full = tables(quiet, by_class({9: 310}, 0), by_class({9: 310}, 0), id=0)
    roomy = tables(quiet, by_class({0: 310}, 200), by_class({0: 310}, 200), id=1)
    cloud = a_cloud(0, vp1=[full, roomy])
    request = cloud.placement.read(asks("strict"))
    place = cloud.placement.place(a_host("vp1"), request, 0.05)
    assert place is not None
    assert place.domain_ids == (1,)
    assert place.losses == (0.0, 0.2, 0.2, 0.2, 0.2)


def test_who_is_on_the_way_costs_nobody_a_host_by_a_learned_profile() -> None:
    """Of another flavor's newcomer only a profile is known: it counts as unknown."""
    for learned in (None, 0, 2, 8):
        cloud = a_cloud(learned, vp1=[a_domain(cpus=8)])
        first = a_request("none", server=OTHER, fields={"image": objects.ImageMeta(id=IMAGE)})
        assert cloud.passing(first, [a_host("vp1")]) == ["vp1"]
        host = a_host("vp1", servers=[OTHER])
        assert cloud.passing(a_request(expects="quiet"), [host]) == ["vp1"], learned
        assert cloud.passing(a_request(expects="mixed"), [host]) == [], learned


@st.composite
def digests(draw: st.DrawFn) -> dict[str, Any]:
    """Whatever agents may say, also what no model would."""
    table = st.lists(LOSSES, min_size=10, max_size=10)
    return {
        f"vp{host}": [
            tables(draw(table), draw(table), draw(table), id=number)
            for number in range(draw(st.integers(1, 2)))
        ]
        for host in range(3)
    }


@settings(max_examples=60)
@given(
    digests(),
    st.integers(0, 8),
    st.sampled_from([1, 3, 6]),
    st.booleans(),
    st.booleans(),
)
def test_no_profile_makes_any_host_worse(
    hosts: dict[str, Any], learned: int, vcpus: int, homing: bool, is_beside_another: bool
) -> None:
    without, with_it = Cloud(), a_cloud(learned)
    for cloud in (without, with_it):
        for name, domains in hosts.items():
            hear(cloud.view, digest_text(name, *domains, homing=homing))
    more = 1 if is_beside_another else 0
    states = [a_host(name, more=more) for name in hosts]
    unknown, known = (c.placement.read(asks("strict", vcpus)) for c in (without, with_it))
    for state in states:
        before = without.placement.place(state, unknown, 0.05)
        after = with_it.placement.place(state, known, 0.05)
        assert before is not None
        assert after is not None
        assert after.domain_ids == before.domain_ids
        assert after.losses[0] == before.losses[0]
        assert all(a <= b for a, b in zip(after.losses, before.losses, strict=True))
    passing = [set(c.passing(asks("strict", vcpus), states)) for c in (without, with_it)]
    assert passing[0] <= passing[1]
    for isolation in ISOLATIONS:
        before_ranks, after_ranks = (
            c.ranked(asks(isolation, vcpus), states) for c in (without, with_it)
        )
        assert all(after_ranks[name] >= before_ranks[name] for name in before_ranks)
