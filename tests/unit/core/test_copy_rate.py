# SPDX-License-Identifier: Apache-2.0
"""Copying memory without a storm, and judging it only once it has ended."""

from dataclasses import replace

import pytest

from nova_vp.core.types.action import Result
from nova_vp.core.types.claim import Setting
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.topology import Limits
from tests.unit.core.build import ALL_KNOBS, Host, memory_system, nodes_of, uuid_of
from tests.unit.core.hosts import SENSITIVE
from tests.unit.core.wishful import NOBODY, Wishful, enabled

FULL, PHASED = (
    NOBODY.memory_pace_kib_per_s,
    (NOBODY.memory_pace_kib_per_s * NOBODY.phased_pace_ratio),
)


def a_copy(limit_per_s: float | None, **bystander) -> Host:
    """A VP has its memory copied home from node 1, where somebody else lives."""
    homing = Wishful("homing", 500, is_verified=True)
    limits = Limits(node_misses_per_s=limit_per_s)
    host = Host(nodes_of(0, 1, 2), enabled(homing), knobs=ALL_KNOBS, limits=limits)
    host.copy_kib_per_s = 5_000.0
    host.add("mover", SENSITIVE, cpus={0, 1}, node=0)
    host.add("bystander", SENSITIVE, cpus={2, 3}, **{"node": 1, **bystander})
    host.rule = memory_system({"mover": SENSITIVE, "bystander": SENSITIVE})
    host.ticks(6)
    host.change("mover", memory_by_node=((1, host.guest("mover").memory_kib),))
    host.ticks(6)
    homing.wants(Setting(uuid_of("mover"), Knob.MEMORY, ((0, 1.0),)))
    host.until(homing.reason)
    homing.wants()
    assert host.memory_moves[uuid_of("mover")].left_kib > 0
    return host


def pace(host: Host) -> float:
    return host.tick().copy_rate_kib_per_s[uuid_of("mover")]


@pytest.mark.parametrize("limit", [None, 1e9])
def test_where_no_controller_is_busy_memory_is_copied_at_full_pace(limit):
    assert pace(a_copy(limit)) == FULL


def test_copying_is_phased_out_where_a_busy_controller_serves_somebody_sensitive():
    assert pace(a_copy(2.5e6)) == PHASED


def test_a_busy_controller_that_takes_no_part_in_a_copy_does_not_slow_it():
    host = a_copy(1.2e6, node=2)
    assert pace(host) == FULL
    host.change("bystander", memory_by_node=((1, host.guest("bystander").memory_kib),))
    assert pace(host) == PHASED


@pytest.mark.parametrize(("share", "expected"), [(0.05, 1.0), (0.2, NOBODY.phased_pace_ratio)])
def test_a_controller_that_serves_many_times_as_much_does_not_notice_a_copy(share, expected):
    host = a_copy(2.5e6)
    misses_per_s = max(node.misses_per_s for node in host.tick().nodes)
    kib_per_s = share * misses_per_s / 16
    host.policy = replace(host.policy, memory_pace_kib_per_s=kib_per_s)
    assert pace(host) == pytest.approx(expected * kib_per_s)


def test_nobody_sensitive_on_the_busy_controller_lets_it_go_on():
    host = a_copy(2.5e6)
    quiet = replace(SENSITIVE, l2_mpki=200.0)
    host.rule = None
    host.run("bystander", quiet)
    host.ticks(6)
    assert not host.state.undisturbed[uuid_of("bystander")].sensitivity.memory
    assert pace(host) == FULL


@pytest.mark.parametrize(("priority", "expected"), [(0.5, FULL), (1.0, PHASED), (2.0, PHASED)])
def test_priority_decides_whether_the_mover_or_the_others_wait(priority, expected):
    assert pace(a_copy(2.5e6, priority=priority)) == expected


def test_a_copy_comes_to_its_end_and_is_judged_only_then():
    host = a_copy(None)
    while uuid_of("mover") in host.memory_moves:
        decision = host.tick()
        history = host.view("mover", decision).history
        assert [o.result for o in history] == [Result.APPLIED]
        assert [m.guest_uuid for m in decision.memory_moves] in ([], [uuid_of("mover")])
    assert host.nodes("mover") == {0}
    assert [o.result for o in host.view("mover", host.ticks(20)[-1]).history] == [Result.MENDED]
    assert host.tick().copy_rate_kib_per_s == {}
