# SPDX-License-Identifier: Apache-2.0
"""When a setting may be changed again: holds between moves, no way back, no failed change twice."""

import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar, cast

from nova_vp.core.model.limits import PLACES
from nova_vp.core.types.action import Change, Result
from nova_vp.core.types.claim import Setting
from nova_vp.core.types.knob import Cpus, Knob, Value, all_cpus, nodes_of, plain
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.reason import Rejection
from nova_vp.core.types.state import CoreState, VpState

_One = TypeVar("_One")
_Key = TypeVar("_Key")


def signature(settings: Iterable[Setting | Change]) -> int:
    """What makes two groups of settings the same one, in every process: recordings keep it."""
    parts = sorted((s.guest_uuid, s.knob.value, repr(plain(_target(s)))) for s in settings)
    return zlib.crc32(repr(parts).encode())


def subject(settings: Iterable[Setting | Change]) -> int:
    """The same for what a person rejects: of limits whatever their value, which moves with what is
    measured."""
    parts = sorted(
        (s.guest_uuid, s.knob.value, repr(plain(_target(s))) if s.knob in PLACES else "")
        for s in settings
    )
    return zlib.crc32(repr(parts).encode())


def failed_lately(
    victim_uuid: str, settings: Iterable[Setting], state: CoreState, now_s: float
) -> bool:
    """It was done for this victim ("": for nobody) and brought nothing: something else is sought,
    for the hold time."""
    failed = state.failed_actions
    return bool(failed) and failed.get((victim_uuid, signature(settings)), now_s) > now_s


def is_rejected(
    victim_uuid: str, settings: Iterable[Setting], state: CoreState, now_s: float
) -> bool:
    """An operator rejected it, and what it was to end still lasts."""
    if not state.rejected:
        return False
    held = state.rejected.get((victim_uuid, subject(settings)))
    if held is None or held.until_s <= now_s:
        return False
    victim = state.vps.get(victim_uuid)
    return held.since_s == (victim.detection.since_s if victim and victim.detection else None)


def failed_for_anybody(settings: Iterable[Setting], state: CoreState, now_s: float) -> bool:
    """The same, whoever it was done for: what is done for the sake of all helped one as little. Or
    an operator rejected it as one for the sake of all."""
    settings = tuple(settings)
    failed = unexpired(state.failed_actions, now_s)
    if failed and signature(settings) in {number for _, number in failed}:
        return True
    return is_rejected("", settings, state, now_s)


def why_not_again(
    victim_uuid: str, settings: Collection[Setting], state: CoreState, now_s: float
) -> Rejection | None:
    """It was rejected, or failed: something else is sought."""
    if is_rejected(victim_uuid, settings, state, now_s):
        return Rejection.REJECTED
    if failed_lately(victim_uuid, settings, state, now_s):
        return Rejection.FAILED_BEFORE
    return None


def _target(setting: Setting | Change) -> Value:
    return setting.value if isinstance(setting, Setting) else setting.to


def is_change_allowed(
    setting: Setting, state: CoreState, controller: str, now_s: float, policy: Policy
) -> bool:
    """Whether an action that is verified may make this change now, the budget apart: a plan of
    several steps waits as a whole if one of them may not."""
    vp = state.vps[setting.guest_uuid]
    return not (
        is_held_off(setting, state, now_s)
        or (setting.knob in PLACES and moved_lately(vp, now_s, policy))
        or was_refused_lately(setting, vp, controller, now_s, policy)
        or goes_back(setting, vp, now_s, policy)
    )


def is_held_off(setting: Setting, state: CoreState, now_s: float) -> bool:
    return state.held_off.get((setting.guest_uuid, setting.knob), now_s) > now_s


def was_refused_lately(
    setting: Setting, vp: VpState, controller: str, now_s: float, policy: Policy
) -> bool:
    """By the host, to this controller: it will do the same a second later."""
    return any(
        outcome.result is Result.FAILED
        and outcome.action.controller == controller
        and now_s - outcome.at_s < policy.move_hold_s
        and any(
            c.guest_uuid == vp.guest_uuid and c.knob is setting.knob for c in outcome.action.changes
        )
        for outcome in vp.history
    )


def goes_back(setting: Setting, vp: VpState, now_s: float, policy: Policy) -> bool:
    if setting.knob is Knob.PLACEMENT:
        return left_lately(vp, all_cpus(cast(Cpus, setting.value)), now_s, policy)
    if setting.knob is Knob.MEMORY:
        return _is_among(vp.left_nodes, nodes_of(setting.value), now_s, policy)
    return False


def round_robin(
    found: Sequence[_One], at_once: int, now_s: float, interval_s: float
) -> Sequence[_One]:
    """Of many so many in each tick, whatever the seconds between two of them."""
    if len(found) <= at_once:
        return found
    first = int(now_s / max(1, round(interval_s))) * at_once % len(found)
    return (*found, *found)[first : first + at_once]


def moved_lately(vp: VpState, now_s: float, policy: Policy) -> bool:
    return vp.moved_at_s is not None and now_s - vp.moved_at_s < policy.move_hold_s


def left_lately(vp: VpState, cpus: frozenset[int], now_s: float, policy: Policy) -> bool:
    """It was taken away from some of these CPUs, and may not go back yet."""
    return _is_among(vp.left, cpus, now_s, policy)


def _is_among(
    left: Iterable[tuple[frozenset[int], float]], ids: frozenset[int], now_s: float, policy: Policy
) -> bool:
    return any(gone & ids and now_s - at_s < policy.reverse_hold_s for gone, at_s in left)


def unexpired(until_s: Mapping[_Key, float], now_s: float) -> dict[_Key, float]:
    return {key: end_s for key, end_s in until_s.items() if end_s > now_s}
