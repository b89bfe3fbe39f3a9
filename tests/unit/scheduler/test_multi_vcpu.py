# SPDX-License-Identifier: Apache-2.0
"""A wide newcomer against `predict` itself: too much may be foretold of it, never too little."""

from itertools import product

import pytest

from nova_vp.core.model.predict import FALLBACK_CLOCK_HZ, Resident, newcomers, predict
from tests.messages import a_digest
from tests.policies import a_policy
from vp_scheduler.placement.host_digest import HostDigest, Loss, read_digest
from vp_scheduler.placement.scoring import Ask, score_host

CLASSES = newcomers(FALLBACK_CLOCK_HZ, a_policy())
CACHE, MIXED, STREAM = 1, 4, 8
ROUNDED = 0.01


def wide(one: Resident, vcpus: int) -> Resident:
    return one._replace(
        references_per_s=vcpus * one.references_per_s,
        pressure_per_s=vcpus * one.pressure_per_s,
    )


def a_digest_of(resident: Resident, cpus: int = 8, domains: int = 1) -> HostDigest:
    """A host with one strict resident; where there are several domains, it floats over all."""
    table = [predict(one, [resident._replace(is_strict=True)]) for one in CLASSES]
    domain = {
        "free_mcores": 1000 * cpus,
        "cpus": cpus,
        "vcpus": 0,
        "newcomer": [round(1000 * hurt.newcomer_ratio) for hurt in table],
        "resident": [round(1000 * hurt.worst_resident_ratio) for hurt in table],
        "strict": [round(1000 * hurt.worst_strict_ratio) for hurt in table],
    }
    each = [{"id": n, **domain} for n in range(domains)]
    return read_digest(a_digest("vp1", *each, homing=domains == 1), 0.0, 0.05)


def losses(digest: HostDigest, newcomer: int, vcpus: int) -> tuple[float, ...]:
    place = score_host(digest, Ask(newcomer, vcpus, 0.05))
    assert place is not None
    return place.losses


@pytest.mark.parametrize("vcpus", [1, 2, 4, 8])
def test_never_too_little_is_foretold(vcpus: int) -> None:
    kinds = (CACHE, MIXED, STREAM)
    for newcomer, resident, of_resident in product(kinds, (CACHE, MIXED), (1, 8)):
        there = wide(CLASSES[resident], of_resident)
        truth = predict(wide(CLASSES[newcomer], vcpus), [there])
        found = losses(a_digest_of(there), newcomer, vcpus)
        assert found[Loss.NEWCOMER] >= truth.newcomer_ratio - ROUNDED
        assert found[Loss.STRICT] >= truth.worst_resident_ratio - ROUNDED
        assert found[Loss.STRICT_HURT] == max(found[Loss.NEWCOMER], found[Loss.STRICT])


def test_a_wide_stream_is_no_neighbour_for_a_wide_strict_server() -> None:
    digest = a_digest_of(wide(CLASSES[MIXED], 8))
    assert losses(digest, STREAM, 1)[Loss.STRICT_HURT] < 0.05
    assert losses(digest, STREAM, 8)[Loss.STRICT_HURT] > 0.15


def test_no_more_vcpus_run_at_once_than_a_domain_has_cpus() -> None:
    there = wide(CLASSES[MIXED], 8)
    narrow = losses(a_digest_of(there, cpus=1), STREAM, 8)
    assert narrow == losses(a_digest_of(there, cpus=1), STREAM, 1)


def test_where_guests_float_its_vcpus_are_spread_over_the_domains() -> None:
    there = wide(CLASSES[MIXED], 8)
    floating = losses(a_digest_of(there, domains=4), STREAM, 8)
    assert floating == pytest.approx(losses(a_digest_of(there), STREAM, 2))
