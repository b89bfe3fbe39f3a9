# SPDX-License-Identifier: Apache-2.0
"""The log says each thing once: when it begins, and when it ends."""

import logging
from dataclasses import replace

import pytest

from nova_vp.core.types.action import Change, Outcome, Result
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.guest import MemoryMove
from nova_vp.core.types.knob import NO_QUOTA, Knob, Quota
from tests.decisions import a_decision, a_detection, a_node, an_action, an_escalation, uuid_of
from vp_agent.loop.event_log import EventLog

QUIET = a_decision()
A_MOVE = MemoryMove(uuid_of(2), ((1, 1.0),), moved_kib=10, left_kib=30)
WAITING = replace(a_detection(), kind=Kind.CPU, waiting_ratio=0.3)


@pytest.fixture
def said(caplog: pytest.LogCaptureFixture):
    """What a story says of decisions that follow each other, one list of lines for each."""
    caplog.set_level(logging.INFO, "vp_agent.loop.event_log")
    story = EventLog()

    def tell(decision: Decision, *outcomes: Outcome) -> list[str]:
        caplog.clear()
        story.log(decision, outcomes)
        return [f"{record.levelname} {record.getMessage()}".rstrip() for record in caplog.records]

    return tell


@pytest.mark.parametrize(
    ("there", "begins", "ends"),
    [
        (
            {"detections": (a_detection(),)},
            f"WARNING vp={uuid_of(1)} hurt kind=cache mf=0.10->0.50 l2_mpki=50.0->10.1 "
            f"suspects={uuid_of(2)}",
            f"INFO vp={uuid_of(1)} no longer hurt",
        ),
        (
            {"detections": (WAITING,)},
            f"WARNING vp={uuid_of(1)} hurt kind=cpu waiting_ratio=0.30 cpu_cores=2.50 "
            f"host_cores=0.00 suspects={uuid_of(2)}",
            f"INFO vp={uuid_of(1)} no longer hurt",
        ),
        (
            {"nodes": (a_node(1, is_hot=True, limit_misses_per_s=5e5),)},
            "WARNING node=1 hot misses_per_s=1000000 limit_misses_per_s=500000.0 mpki=20.0",
            "INFO node=1 no longer hot",
        ),
        (
            {"memory_moves": (A_MOVE,)},
            f"INFO vp={uuid_of(2)} memory moves to node 1 100 %",
            f"INFO vp={uuid_of(2)} memory move over moved_kib=40 left_kib=0",
        ),
    ],
    ids=["hurt", "waiting for CPU", "hot", "memory"],
)
def test_what_lasts_is_told_when_it_begins_and_ends(said, there, begins, ends):
    quiet = a_decision(nodes=(a_node(0), a_node(1)))
    lasting = replace(quiet, **there)
    over = replace(A_MOVE, moved_kib=40, left_kib=0, is_over=True)
    ended = replace(quiet, memory_moves=(over,)) if lasting.memory_moves else quiet
    assert said(quiet) == []
    assert said(lasting) == [begins]
    assert said(lasting) == []
    assert said(ended) == [ends]
    assert said(quiet) == []


def test_memory_that_stays_behind_is_a_warning(said):
    over = replace(A_MOVE, is_over=True, problem="no room on node 1")
    assert said(replace(QUIET, memory_moves=(over,))) == [
        f"WARNING vp={uuid_of(2)} memory move over moved_kib=10 left_kib=30 no room on node 1"
    ]


def test_an_escalation_is_told_once_with_what_was_tried(said):
    escalated = replace(QUIET, escalations=(an_escalation(),))
    assert said(escalated) == [
        f"WARNING escalation=e1 vp={uuid_of(1)} kind=memory-controller: nothing on this host "
        "helps; tried cap:move-budget-spent"
    ]
    assert said(escalated) == []
    another = an_escalation(id="e2", rejected=())
    (line,) = said(replace(QUIET, escalations=(another,)))
    assert line.endswith("tried -")


def test_an_action_is_told_with_every_knob_it_turns(said):
    cap = Change(uuid_of(2), Knob.CPU_CAP, Quota(90_000), NO_QUOTA, NO_QUOTA)
    room = Change(uuid_of(3), Knob.PLACEMENT, (frozenset({4}),), (frozenset({0, 1}),), ())
    action = an_action(changes=(cap, room))
    (line,) = said(QUIET, Outcome(action, Result.FAILED, 9.0, "no cgroup"))
    assert line == (
        f"ERROR action=a1 vp={uuid_of(2)} reason=move-in-a-test "
        f"cpu-cap=[none]->[90 % of each vCPU] {uuid_of(3)}:placement=[0-1]->[4] "
        f"victim={uuid_of(1)} hurt_ratio=0.030 result=failed no cgroup"
    )
