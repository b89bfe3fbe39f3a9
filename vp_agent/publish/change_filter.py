# SPDX-License-Identifier: Apache-2.0
"""What counts as news: a difference between two decisions that is worth a message at once."""

from collections.abc import Callable

from nova_vp import controllers
from nova_vp.core.types.action import Result
from nova_vp.core.types.decision import Decision, DomainView, VpView
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.service_level import ClassRoom

NEWS_RATIO = 0.02
"""A predicted loss that moved by less is no news."""
NEWS_CORES = 0.5
"""Free CPU of a domain that moved by less is no news."""
NEWS_ROOM_CORES = 2.0
"""CPU that is open to a class and moved by less is none: a loop changes it every two seconds."""
NEWS_LOSS_RATIO = 0.1
"""A measured loss that moved by less is no news: its mean goes on moving for some seconds."""
OFTEN_TOLD_EVERY_S = 10.0
"""Limits that a controller changes every few seconds, and nodes that are no longer hot, are no news
in between. Each report of a full host costs it as much as some ticks."""


def is_material_change(old: Decision, new: Decision) -> bool:
    """Whether the change between two decisions is worth a message before the next refresh."""
    if old.mode is not new.mode or len(old.domains) != len(new.domains):
        return True
    if _lists(old) != _lists(new):
        return True
    if len(old.vps) != len(new.vps) or any(map(_is_vp_news, old.vps, new.vps)):
        return True
    is_soon = new.at_s - old.at_s < OFTEN_TOLD_EVERY_S
    if _is_heat_news(_hot(old), _hot(new), is_soon=is_soon):
        return True
    if not is_soon and any(map(_is_loss_news, old.vps, new.vps)):
        return True
    name_of = _last_change if is_soon else _last
    if any(_is_history_news(was, now, name_of) for was, now in zip(old.vps, new.vps, strict=True)):
        return True
    if _is_room_news(old.class_room, new.class_room):
        return True
    if old.domains is new.domains:
        return False
    return any(_is_domain_news(*pair) for pair in zip(old.domains, new.domains, strict=True))


def _lists(decision: Decision) -> tuple[list[object], ...]:
    """What came or went; how far memory has moved and how busy a node is, is no news."""
    return (
        [action.id for action in decision.proposals],
        [one.id for one in decision.escalations],
        [(move.guest_uuid, move.to, move.is_over) for move in decision.memory_moves],
        [view.island for view in decision.islands],
    )


def _hot(decision: Decision) -> frozenset[int]:
    return frozenset(view.node for view in decision.nodes if view.is_hot)


def _is_heat_news(old: frozenset[int], new: frozenset[int], *, is_soon: bool) -> bool:
    """One at the edge of it is hot in every other tick."""
    return not new <= old if is_soon else new != old


def _is_vp_news(old: VpView, new: VpView) -> bool:
    was, now = old.guest, new.guest
    return (
        was.uuid != now.uuid
        or old.state != new.state
        or old.sensitivity != new.sensitivity
        or old.domain_ids != new.domain_ids
        or was.unmanaged is not now.unmanaged
        or was.isolation is not now.isolation
        or _kind(old) is not _kind(new)
    )


def _is_loss_news(old: VpView, new: VpView) -> bool:
    return abs(old.degradation_ratio - new.degradation_ratio) >= NEWS_LOSS_RATIO


def _is_history_news(
    old: VpView, new: VpView, name_of: Callable[[VpView], tuple[str, Result] | None]
) -> bool:
    return old.history is not new.history and name_of(old) != name_of(new)


def _is_room_news(old: ClassRoom | None, new: ClassRoom | None) -> bool:
    """A tick in which the controller did not run says nothing."""
    if old is None or new is None:
        return old is None and new is not None
    return (
        old.starved != new.starved
        or old.best_effort_vcpus != new.best_effort_vcpus
        or abs(old.best_effort_cores - new.best_effort_cores) >= NEWS_ROOM_CORES
        or abs(old.latency_critical_cores - new.latency_critical_cores) >= NEWS_ROOM_CORES
    )


def _kind(view: VpView) -> Kind | None:
    return view.detection.kind if view.detection else None


def _last(view: VpView) -> tuple[str, Result] | None:
    last = view.history[-1] if view.history else None
    return (last.action.id, last.result) if last else None


def _last_change(view: VpView) -> tuple[str, Result] | None:
    """The same for all changes of a controller that makes many."""
    last = view.history[-1] if view.history else None
    if last is None:
        return None
    controller = controllers.installed().get(last.action.controller)
    changes_often = controller is not None and controller.changes_often
    return (last.action.controller if changes_often else last.action.id, last.result)


def _is_domain_news(old: DomainView, new: DomainView) -> bool:
    if old.domain != new.domain or old.allocated_vcpus != new.allocated_vcpus:
        return True
    if old.llc_permits != new.llc_permits:
        return True
    if abs(old.free_cores - new.free_cores) >= NEWS_CORES:
        return True
    return any(
        abs(getattr(before, name) - getattr(after, name)) >= NEWS_RATIO
        for before, after in zip(old.table, new.table, strict=True)
        for name in ("newcomer_ratio", "worst_resident_ratio", "worst_strict_ratio")
    )
