# SPDX-License-Identifier: Apache-2.0
"""How much of its performance a VP loses, as the decision tells it."""

from dataclasses import replace

import pytest

from nova_vp.core.types.detection import Kind
from tests.unit.core import hosts
from tests.unit.core.build import CHASE, CHASE_HURT, uuid_of
from tests.unit.core.crowding import shared_cpus
from tests.unit.core.hosts import onset
from tests.unit.core.signals.test_detect_cpu import BUSY, a_host, busy
from tests.unit.core.wishful import NOBODY


def lost(host, seconds):
    return host.view("victim", host.ticks(seconds)[-1]).degradation_ratio


def test_by_its_cycles_per_instruction():
    host = hosts.a_quiet_pair(policy=NOBODY)
    assert lost(host, 1) == 0.0
    onset(host)
    assert lost(host, 6) == pytest.approx(1 - CHASE.cpi / CHASE_HURT.cpi, abs=0.02)
    host.run("victim", CHASE)
    assert lost(host, 6) == 0.0


def test_one_odd_sample_does_not_say_much():
    host = hosts.a_quiet_pair(policy=NOBODY)
    onset(host)
    steady = lost(host, 9)
    host.run("victim", replace(CHASE_HURT, cpi=2 * CHASE_HURT.cpi))
    assert lost(host, 1) < steady + 0.1


def test_by_how_long_it_waits_for_cpu():
    host = a_host()
    busy(host)
    host.rule = shared_cpus({"victim": BUSY, "neighbour": BUSY})
    decision = host.ticks(6)[-1]
    (found,) = [d for d in decision.detections if d.victim_uuid == uuid_of("victim")]
    assert found.kind is Kind.CPU
    assert host.view("victim", decision).degradation_ratio == found.waiting_ratio > 0.2
