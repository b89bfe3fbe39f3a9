# SPDX-License-Identifier: Apache-2.0
"""What is reckoned when a digest comes, and remembered, against the rule put plainly."""

import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from nova_vp import wire
from tests.messages import a_digest
from vp_scheduler.placement.host_digest import HostDigest, Loss, read_digest
from vp_scheduler.placement.scoring import Ask, score_host, usual_loss
from vp_scheduler.placement.waiting import Waiting

GOOD_ENOUGH = 0.05

permilles = st.lists(st.sampled_from([0, 20, 50, 51, 300, 1000]), min_size=10, max_size=10)


@st.composite
def domains(draw: st.DrawFn) -> list[dict[str, Any]]:
    return [
        {
            "id": number,
            "free_mcores": 8000,
            "cpus": draw(st.sampled_from([2, 4, 8])),
            "vcpus": draw(st.integers(0, 12)),
            "newcomer": draw(permilles),
            "resident": draw(permilles),
            "strict": draw(permilles),
        }
        for number in range(draw(st.integers(1, 5)))
    ]


def a_host_digest(domains: list[dict[str, Any]], homing: bool = True) -> HostDigest:
    return read_digest(a_digest("vp1", *domains, homing=homing), 0.0, GOOD_ENOUGH)


def plainly(domains: list[dict[str, Any]], ask: Ask) -> list[dict[str, Any]]:
    """The domains that the newcomer is homed in: CPU first, then the cache."""
    largest = max(domain["cpus"] for domain in domains)
    count = min(len(domains), math.ceil(ask.vcpus / largest))
    share = ask.vcpus / count
    vcpus = sum(domain["vcpus"] for domain in domains) + ask.vcpus
    fair = math.ceil(vcpus / sum(domain["cpus"] for domain in domains))

    def rank(domain: dict[str, Any]) -> tuple[bool, float, float]:
        load = (domain["vcpus"] + share) / domain["cpus"]
        narrow = (domain["vcpus"] + 1) / domain["cpus"]
        lost = worst(domain, ask)
        felt = lost if lost > ask.good_enough_ratio * 1000 else 0
        return (load > fair, load if load > fair else felt, 0 if load > fair else narrow)

    return sorted(domains, key=rank)[:count]


def worst(domain: dict[str, Any], ask: Ask) -> int:
    lost: int = max(domain["newcomer"][ask.newcomer_class], domain["resident"][ask.newcomer_class])
    return lost


def worst_as_learned(domain: dict[str, Any], ask: Ask) -> int:
    """A resident loses the less of what it would to either class."""
    classes = {ask.newcomer_class, ask.learned_class} - {None}
    resident = min(domain["resident"][number] for number in classes)
    lost: int = max(domain["newcomer"][ask.newcomer_class], resident)
    return lost


asks = st.builds(
    Ask,
    st.integers(0, 9),
    st.integers(1, 20),
    st.sampled_from([GOOD_ENOUGH, 0.0, 0.3]),
    st.none() | st.integers(0, 8),
)


@given(domains(), asks)
def test_the_place_is_the_one_by_the_rule(domains: list[dict[str, Any]], ask: Ask) -> None:
    digest = a_host_digest(domains)
    chosen = plainly(domains, ask)
    place = score_host(digest, ask)
    assert place is not None
    assert sorted(place.domain_ids) == sorted(domain["id"] for domain in chosen)
    if ask.vcpus == 1:
        expected = max(worst_as_learned(domain, ask) for domain in chosen) / 1000
        assert place.losses[Loss.WORST] == expected
    assert score_host(digest, ask) is place


@given(domains(), asks, st.booleans(), st.sampled_from(Loss))
def test_the_quick_way_and_the_thorough_one_agree(
    domains: list[dict[str, Any]], ask: Ask, homing: bool, loss: Loss
) -> None:
    digest = a_host_digest(domains, homing)
    place = score_host(digest, ask)
    assert place is not None
    assert usual_loss(ask, loss)(digest) in (None, place.losses[loss])


def test_where_nobody_lives_yet_the_quick_way_answers() -> None:
    losses = [10 * number for number in range(10)]
    tables = {"newcomer": losses, "resident": losses[::-1], "strict": losses}
    domain = {"id": 0, "free_mcores": 8000, "cpus": 8, "vcpus": 0, **tables}
    digest = a_host_digest([domain])
    ask = Ask(3, 2, GOOD_ENOUGH, None)
    quick = {loss: usual_loss(ask, loss)(digest) for loss in Loss}
    place = score_host(digest, ask)
    assert place is not None
    assert quick == dict(zip(Loss, place.losses, strict=True))
    assert (quick[Loss.NEWCOMER], quick[Loss.RESIDENT]) == (0.03, 0.06)


@given(domains(), asks)
def test_who_floats_meets_the_worst_of_each_domain(domains: list[dict[str, Any]], ask: Ask) -> None:
    ask = ask._replace(learned_class=None)
    place = score_host(a_host_digest(domains, homing=False), ask)
    assert place is not None
    assert place.domain_ids == ()
    for loss, table in (
        (Loss.NEWCOMER, "newcomer"),
        (Loss.RESIDENT, "resident"),
        (Loss.STRICT, "strict"),
    ):
        most = max(domain[table][ask.newcomer_class] for domain in domains) / 1000
        assert place.losses[loss] >= most
        if loss is Loss.NEWCOMER or ask.vcpus <= len(domains):
            assert place.losses[loss] == most


waiting = st.lists(
    st.builds(Waiting, st.integers(0, 9), st.integers(1, 9), st.booleans(), st.booleans()),
    max_size=4,
)


@given(domains(), asks, waiting, st.booleans())
def test_whoever_is_on_the_way_ratios_stay_ratios(
    domains: list[dict[str, Any]], ask: Ask, waiting: list[Waiting], homing: bool
) -> None:
    place = score_host(a_host_digest(domains, homing), ask, tuple(waiting))
    assert place is not None
    newcomer, resident, strict, worst, strict_hurt = place.losses
    assert all(0 <= loss <= 1 for loss in place.losses)
    assert worst == max(newcomer, resident)
    assert strict_hurt == max(newcomer, strict)


def test_what_is_remembered_of_one_digest_is_bounded() -> None:
    digest = a_host_digest([{**a_digest()["domains"][0]}])
    for vcpus in range(1, 1000):
        score_host(digest, Ask(wire.UNKNOWN_CLASS, vcpus, GOOD_ENOUGH))
    assert len(digest.judged) <= 64
