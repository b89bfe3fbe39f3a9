# SPDX-License-Identifier: Apache-2.0
"""A strict server beside the measured ones of its own server group: they are one VP."""

import pytest

from nova_vp import wire
from nova_vp.core.model.predict import FALLBACK_CLOCK_HZ, newcomers, predict
from tests.messages import a_digest, a_domain, digest_text, hear
from tests.policies import a_policy
from tests.unit.scheduler.cloud import UUID, Cloud, a_host, a_request
from tests.unit.scheduler.test_request_profile import a_group
from vp_scheduler.placement.group_members import group_members_of
from vp_scheduler.placement.host_digest import Loss, read_digest
from vp_scheduler.placement.scoring import Ask, score_host

SERVER, SIBLING, STRANGER = (UUID.format(number) for number in (1, 2, 3))
STRICT_HERE, SOFT_HERE, STRICT_ELSEWHERE, ANYWHERE, STOPPED = (
    wire.seat_of(domains, is_strict)
    for domains, is_strict in (([0], True), ([0], False), ([1], True), ([0, 1], True), ([], False))
)
CLASSES = newcomers(FALLBACK_CLOCK_HZ, a_policy())
CACHE, STREAM, PUG = 1, 8, 0


def passes(seats: dict[str, int], homing: bool = True, **asked: object) -> bool:
    """Whether the host takes it that hurts every newcomer and every strict resident; the second
    domain is full, so that nobody is homed there."""
    hostile = a_domain(0, newcomer=0.3, strict=0.3, resident=0.3, cpus=4)
    domains = [hostile, a_domain(1, cpus=1, vcpus=9)] if homing else [hostile]
    cloud = Cloud()
    known = dict.fromkeys(seats, wire.UNKNOWN_CLASS)
    hear(cloud.view, digest_text("vp1", *domains, homing=homing, known=known, seats=seats))
    group = {"instance_group": a_group(["vp1"], SERVER, SIBLING)}
    spec = a_request(**{"server": SERVER, "fields": group, **asked})  # type: ignore[arg-type]
    return cloud.passing(spec, [a_host("vp1", servers=[*seats])]) == ["vp1"]


@pytest.mark.parametrize("homing", [True, False])
def test_its_own_vp_is_no_reason_to_refuse_a_host(homing: bool) -> None:
    assert passes({SIBLING: STRICT_HERE}, homing)
    assert not passes({SIBLING: STRICT_HERE}, homing, fields={})
    assert not passes({STRANGER: STRICT_HERE}, homing)


@pytest.mark.parametrize(
    ("label", "seat", "is_taken"),
    [
        ("a strict one beside it is still hurt", STRICT_HERE, False),
        ("one that may be anywhere too", ANYWHERE, False),
        ("one in another domain has no part in it", STRICT_ELSEWHERE, True),
        ("nor has one that does not run", STOPPED, True),
    ],
)
def test_strangers_count_where_they_live(label: str, seat: int, is_taken: bool) -> None:
    assert passes({SIBLING: STRICT_HERE, STRANGER: seat}) is is_taken, label


def own_loss(own: int, *others: tuple[str, int]) -> tuple[float, float]:
    """What a newcomer loses as it is judged, and to the strangers alone."""
    lost = predict(CLASSES[own], [CLASSES[number] for _, number in others]).newcomer_ratio
    strangers = [CLASSES[number] for uuid, number in others if uuid == STRANGER]
    message = a_digest(
        "vp1",
        a_domain(0, of_class={own: lost}),
        known=dict(others),
        seats=dict.fromkeys([uuid for uuid, _ in others], SOFT_HERE),
    )
    digest = read_digest(message, 0.0, 0.05)
    members = group_members_of(digest, {wire.mark_of(SIBLING)})
    place = score_host(digest, Ask(own, 1, 0.05), members=members)
    assert place is not None
    return place.losses[Loss.NEWCOMER], predict(CLASSES[own], strangers).newcomer_ratio


@pytest.mark.parametrize("sibling", [CACHE, STREAM, PUG])
@pytest.mark.parametrize("stranger", [CACHE, STREAM, PUG])
def test_what_strangers_cost_is_left(sibling: int, stranger: int) -> None:
    judged, expected = own_loss(CACHE, (SIBLING, sibling), (STRANGER, stranger))
    assert judged == pytest.approx(expected, abs=0.01)


def test_agents_that_do_not_say_where_servers_live_are_judged_as_before() -> None:
    digest = read_digest(a_digest("vp1", known={SIBLING: CACHE}), 0.0, 0.05)
    assert group_members_of(digest, {wire.mark_of(SIBLING)}) is None
