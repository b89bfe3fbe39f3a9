# SPDX-License-Identifier: Apache-2.0
"""Limits that change every few seconds, and heat that comes and goes, are not told each time."""

import pytest

from nova_vp.core.types.action import Outcome, Result
from nova_vp.core.types.decision import Decision, NodeView
from tests.decisions import a_decision, a_node, a_view, an_action
from vp_agent.publish.change_filter import OFTEN_TOLD_EVERY_S, is_material_change

with_latency = pytest.mark.needs_controllers("latency")

SOON, LATE = 11.0, 10.0 + OFTEN_TOLD_EVERY_S


def after(
    *ids: str, controller: str = "latency", result: Result = Result.APPLIED, at_s: float = 10.0
) -> Decision:
    """A server that those actions were about."""
    history = tuple(Outcome(an_action(id, controller=controller), result, 9.0) for id in ids)
    return a_decision(a_view(1, history=history), at_s=at_s)


@with_latency
def test_another_limit_is_news_after_a_while_alone() -> None:
    told = after("a1")
    assert not is_material_change(told, after("a1", "a2", at_s=SOON))
    assert is_material_change(told, after("a1", "a2", at_s=LATE))
    assert not is_material_change(told, after("a1", at_s=LATE))


@with_latency
@pytest.mark.parametrize(
    ("before", "now"),
    [
        (after(), after("a1", at_s=SOON)),
        (after("a1"), after("a2", result=Result.FAILED, at_s=SOON)),
        (after("a1", controller="vp"), after("a2", at_s=SOON)),
        (after("a1", controller="vp"), after("a2", controller="vp", at_s=SOON)),
        (after("a1", controller="gone"), after("a2", controller="gone", at_s=SOON)),
    ],
    ids=[
        "the first limit",
        "one that failed",
        "after another controller",
        "another controller",
        "one that is not installed",
    ],
)
def test_all_else_is_news_at_once(before: Decision, now: Decision) -> None:
    assert is_material_change(before, now)


def test_a_node_that_gets_hot_is_news_and_one_that_cools_is_after_a_while() -> None:
    hot, cool = ((a_node(0, is_hot=is_hot), a_node(1, is_hot=True)) for is_hot in (True, False))

    def told(nodes: tuple[NodeView, ...], at_s: float = 10.0) -> Decision:
        return a_decision(nodes=nodes, at_s=at_s)

    assert is_material_change(told(cool), told(hot, SOON))
    assert not is_material_change(told(hot), told(cool, SOON))
    assert is_material_change(told(hot), told(cool, LATE))
    assert not is_material_change(told(hot), told(hot, LATE))


def test_a_loss_that_moved_far_is_news_after_a_while() -> None:
    def told(ratio: float, at_s: float = 10.0) -> Decision:
        return a_decision(a_view(degradation_ratio=ratio), at_s=at_s)

    assert is_material_change(told(0.2), told(0.31, LATE))
    assert not is_material_change(told(0.2), told(0.31, SOON))
    assert not is_material_change(told(0.2), told(0.29, LATE))
