# SPDX-License-Identifier: Apache-2.0
"""One tick's decision, stage by stage: start reading here.

measure (observe, classify) -> detect -> want -> arbitrate -> pace -> plan -> permit. Each stage
is a function from values to values in a module of its own; what they hand on travels in the
decision, so that log, API and CLI tell one story. `memory.confirm` takes in what the host answered.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from nova_vp.core import effect
from nova_vp.core.arbitrate import arbitrate
from nova_vp.core.classify import classify
from nova_vp.core.detect import Verdict, detect
from nova_vp.core.host import Host, after, domain_views, see
from nova_vp.core.memory import Memory, Tracked
from nova_vp.core.model import (
    Action,
    Decision,
    Guest,
    Homing,
    Mode,
    Picture,
    Policy,
    Reason,
    Sensitivity,
    Unmanaged,
    VpView,
)
from nova_vp.core.observe import observe
from nova_vp.core.pace import pace
from nova_vp.core.plan import lost_placements, plan
from nova_vp.core.want import homing, mitigation

DOMAINS_EVERY_S = 5.0
"""The domains' predict tables are made anew this often, and at once when a state or placement
changed: they cost more than the rest of a tick."""


def step(memory: Memory, picture: Picture, policy: Policy) -> tuple[Memory, Decision]:
    """What this host looks like, and what should be done about it now."""
    picture, memory, foreign = respect(memory, picture)
    memory = measure(memory, picture, policy)
    host = see(picture, memory.vps, memory.undisturbed)
    memory, verdicts = detect_all(memory, host, picture.at_s, policy)
    host = replace(host, vps=memory.vps, undisturbed=memory.undisturbed)
    memory, undo = effect.judge(memory, verdicts, picture, policy)
    wants = (
        *undo,
        *mitigation(host, memory, picture.at_s, policy),
        *homing(host, picture.mode, policy),
        *lost_placements(picture),
    )
    owned, outranked = arbitrate(wants)
    paced, held = pace(owned, memory, picture.at_s, policy)
    actions, proposals = permit(plan(paced, picture), picture, policy)
    memory = tabulate(memory, after(host, picture, actions), picture.at_s, policy)
    decision = describe(memory, host, picture, actions, proposals)
    return memory, replace(decision, refused=outranked + held, foreign=foreign)


def respect(memory: Memory, picture: Picture) -> tuple[Picture, Memory, tuple[str, ...]]:
    """A placement that is neither ours nor the original is somebody else's: ours no more."""
    seen = {
        guest.uuid: guest.generation
        for guest in picture.guests
        if (applied := picture.applied.get(guest.uuid))
        and guest.placement not in (applied.cpus, applied.original_cpus)
        and guest.unmanaged is None
    }
    generations = {guest.uuid: guest.generation for guest in picture.guests}
    kept = {u: g for u, g in memory.foreign.items() if generations.get(u) == g}
    foreign = {**kept, **seen}
    if not foreign:
        return picture, replace(memory, foreign=foreign), ()
    guests = tuple(_left_alone(g) if g.uuid in foreign else g for g in picture.guests)
    return replace(picture, guests=guests), replace(memory, foreign=foreign), tuple(seen)


def _left_alone(guest: Guest) -> Guest:
    if guest.unmanaged:
        return guest
    detail = "its vCPUs were placed by hand or by another tool; reboot it to hand it back"
    return replace(guest, unmanaged=Unmanaged.FOREIGN_CHANGE, unmanaged_detail=detail)


def measure(memory: Memory, picture: Picture, policy: Policy) -> Memory:
    """Every guest's sample and state; guests that left are forgotten."""
    vps = {}
    for guest in picture.guests:
        vp = memory.vps.get(guest.uuid) or Tracked(guest.uuid)
        if vp.generation != guest.generation:
            vp = vp._replace(is_homed=False, moved_at_s=None, state=None, detection=None)
        if guest.uuid in picture.applied and not vp.is_homed:
            vp = vp._replace(is_homed=True)
        vps[guest.uuid] = classify(observe(vp, guest, picture, policy), policy)
    return replace(memory, vps=vps)


def detect_all(
    memory: Memory, host: Host, now_s: float, policy: Policy
) -> tuple[Memory, Mapping[str, Verdict]]:
    vps, undisturbed, verdicts = {}, {}, {}
    for uuid, vp in memory.vps.items():
        domains = host.domains_of[uuid]
        domain_id = domains[0].id if domains else 0
        before = memory.undisturbed.get(uuid) or memory.profiles.get(uuid)
        neighbours = host.neighbours[uuid]
        found = detect(vp, before, neighbours, domain_id, now_s, policy)
        vps[uuid], verdicts[uuid] = found.vp, found.verdict
        if found.undisturbed:
            undisturbed[uuid] = found.undisturbed
    return replace(memory, vps=vps, undisturbed=undisturbed), verdicts


def permit(
    actions: Iterable[Action], picture: Picture, policy: Policy
) -> tuple[tuple[Action, ...], tuple[Action, ...]]:
    """Which of the planned actions the mode lets us do; the others are proposals."""
    may: list[Action] = []
    proposals: list[Action] = []
    for action in actions:
        (may if _is_permitted(action, picture, policy) else proposals).append(action)
    return tuple(may), tuple(proposals)


def _is_permitted(action: Action, picture: Picture, policy: Policy) -> bool:
    if picture.mode is Mode.ENFORCE:
        return True
    if action.reason is Reason.HOME and policy.home_on_arrival is Homing.ALWAYS:
        return True
    if picture.mode is Mode.OBSERVE:
        return False
    settles = action.is_undo or action.reason is Reason.REAPPLY
    return settles or action.id in picture.approved


def tabulate(memory: Memory, host: Host, now_s: float, policy: Policy) -> Memory:
    key = hash(tuple((u, vp.state, host.guests[u].placement) for u, vp in host.vps.items()))
    if key == memory.domains_key and now_s - memory.domains_at_s < DOMAINS_EVERY_S:
        return memory
    views = domain_views(host, policy)
    return replace(memory, domains=views, domains_at_s=now_s, domains_key=key)


def describe(
    memory: Memory,
    host: Host,
    picture: Picture,
    actions: tuple[Action, ...],
    proposals: tuple[Action, ...],
) -> Decision:
    views = tuple(_view(host, memory.vps[guest.uuid]) for guest in picture.guests)
    return Decision(
        at_s=picture.at_s,
        mode=picture.mode,
        vps=views,
        domains=memory.domains,
        detections=tuple(view.detection for view in views if view.detection),
        proposals=proposals,
        actions=actions,
    )


def _view(host: Host, vp: Tracked) -> VpView:
    undisturbed = host.undisturbed.get(vp.guest_uuid)
    return VpView(
        guest=host.guests[vp.guest_uuid],
        domain_ids=tuple([d.id for d in host.domains_of[vp.guest_uuid]]),
        sample=vp.sample,
        incomplete=vp.incomplete,
        state=vp.state,
        since_s=vp.since_s,
        sensitivity=undisturbed.sensitivity if undisturbed else Sensitivity(),
        undisturbed=undisturbed,
        detection=vp.detection,
        history=vp.history,
    )
