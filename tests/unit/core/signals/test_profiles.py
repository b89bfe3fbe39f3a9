# SPDX-License-Identifier: Apache-2.0
"""What a VP remembers of its neighbours from when nobody hurt it."""

from dataclasses import replace

import pytest

from tests.unit.core.build import CHASE, CHASE_HURT, COMPUTE, STREAM, Host, Rates, uuid_of
from tests.unit.core.wishful import NOBODY

CHASE_REFERENCES_PER_S = CHASE.mips * 1e3 * CHASE.l2_mpki


def missing(share_ratio: float):
    """Work that misses as much as this share of what the victim references."""
    mpki = share_ratio * CHASE_REFERENCES_PER_S / (STREAM.mips * 1e3)
    return replace(STREAM, mpki=mpki, l2_mpki=mpki)


def a_pair(neighbour) -> Host:
    host = Host(policy=NOBODY)
    host.add("victim", CHASE, cpus={0})
    host.add("neighbour", neighbour, cpus={0})
    host.ticks(40)
    return host


def pressures(host: Host):
    return host.state.undisturbed[uuid_of("victim")].pressures


def suspects(host: Host):
    host.run("victim", CHASE_HURT)
    decision = host.ticks(2)[-1]
    return [s.guest_uuid for d in decision.detections for s in d.suspects]


def test_a_neighbour_that_matters_is_remembered():
    assert pressures(a_pair(STREAM))[uuid_of("neighbour")] > 1e6


@pytest.mark.parametrize(("share_ratio", "is_remembered"), [(0.009, False), (0.011, True)])
def test_a_neighbour_too_quiet_to_matter_is_not(share_ratio, is_remembered):
    known = pressures(a_pair(missing(share_ratio)))
    assert (uuid_of("neighbour") in known) is is_remembered


def test_a_neighbour_that_fell_silent_is_forgotten_slowly():
    host = a_pair(STREAM)
    host.run("neighbour", COMPUTE)
    host.ticks(3)
    assert pressures(host)[uuid_of("neighbour")] > 5e5
    host.ticks(60)
    assert uuid_of("neighbour") not in pressures(host)


def test_who_always_missed_almost_enough_is_not_guilty_by_a_little_more():
    host = a_pair(missing(0.09))
    host.run("neighbour", missing(0.12))
    assert suspects(host) == []


def test_who_cannot_be_hurt_remembers_nobody():
    host = a_pair(STREAM)
    assert host.state.undisturbed[uuid_of("neighbour")].pressures == {}


def test_who_becomes_sensitive_knows_its_corunners_as_they_are():
    """Its profile had no pressures while nobody could hurt it."""
    host = Host(policy=replace(NOBODY, sensitive_hits_pki=10.0))
    host.add("stream", STREAM, cpus={0})
    host.add("vm", Rates(mips=16, l2_mpki=9.0, mpki=0.1, cpi=1.5), cpus={0})
    host.ticks(5)
    host.run("vm", Rates(mips=16, l2_mpki=12.0, mpki=0.1, cpi=1.5))
    host.ticks(5)
    profile = host.state.undisturbed[uuid_of("vm")]
    assert profile.sensitivity.cache
    assert profile.pressures[uuid_of("stream")] == pytest.approx(30 * 45 * 1000)
