# SPDX-License-Identifier: Apache-2.0
"""One tick's decision, stage by stage: start reading here.

measure (observe, classify) -> detect -> judge -> want -> arbitrate -> pace -> plan -> permit. Each
stage is a function from values to values in a module of its own; what they hand on travels in the
decision, so that log, API and CLI tell one story. `memory.confirm` takes in what the host answered.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from nova_vp.core import effect
from nova_vp.core.arbitrate import arbitrate
from nova_vp.core.cap import forget_ended_caps, keep_caps, lifted_lately
from nova_vp.core.classify import classify
from nova_vp.core.cost import measured_copy_kib_per_s
from nova_vp.core.decided import Action, Decision, NodeView, Reason, VpView, Want
from nova_vp.core.detect import Conditions, Verdict, detect
from nova_vp.core.escalate import escalate
from nova_vp.core.home import homing
from nova_vp.core.host import Host, after, domain_views, see
from nova_vp.core.hot import look_beyond_cache, memory_ratio, node_views
from nova_vp.core.knobs import Applied, Knob, Value
from nova_vp.core.memory import Memory, Tracked, put_off
from nova_vp.core.merlin import demands, note_allocations, note_unmet, watch_repercussions
from nova_vp.core.mitigate import mitigation
from nova_vp.core.model import (
    Controller,
    Guest,
    Homing,
    Mode,
    Picture,
    Policy,
    Sensitivity,
    Unmanaged,
    tightest,
)
from nova_vp.core.observe import observe, pace_from_onset
from nova_vp.core.outlook import Outlook
from nova_vp.core.pace import pace
from nova_vp.core.phasing import memory_paces
from nova_vp.core.plan import lost_settings, plan
from nova_vp.core.predict import queueing_ratio
from nova_vp.core.rearrange import is_due, rearrange
from nova_vp.core.revoke import note_left_alone, revoke

DOMAINS_EVERY_S = 5.0
"""The domains' predict tables are made anew this often, and at once when a state or placement
changed: they cost more than the rest of a tick."""
_LET_GO_OF = frozenset({Unmanaged.ORDERED_OUT, Unmanaged.LEAVING})
"""Nothing of ours is on these any more."""


def step(memory: Memory, picture: Picture, policy: Policy) -> tuple[Memory, Decision]:
    """What this host looks like, and what should be done about it now."""
    picture, memory, foreign = respect(memory, picture)
    memory = measure(memory, picture, policy)
    host = see(picture, memory.vps, memory.undisturbed)
    nodes = node_views(host, picture.limits, policy)
    memory, verdicts = detect_all(memory, host, nodes, picture, policy)
    host = replace(host, vps=memory.vps, undisturbed=memory.undisturbed)
    memory, revoked = revoke(note_left_alone(memory, picture), picture, policy)
    memory, undo = effect.judge(memory, verdicts, picture, policy)
    memory = watch_repercussions(memory, picture.at_s, policy)
    is_look_due = is_due(host, memory, picture.at_s, policy)
    wanted = controllers(host, memory, nodes, picture, policy, is_look_due)
    wants = (*revoked, *undo, *wanted, *lost_settings(picture))
    owned, outranked = arbitrate(wants)
    paced, held = pace(owned, memory, picture.at_s, policy)
    actions, proposals = permit(plan(paced, memory, picture), picture, policy)
    memory = note_unmet(note_allocations(memory, host, actions), wants, picture.at_s)
    if is_look_due:
        memory = put_off(memory, picture.at_s)
    memory = tabulate(memory, after(host, picture, actions), picture.at_s, policy)
    refused = outranked + held
    memory, told = escalate(memory, host, picture.limits, refused, wants, picture.at_s, policy)
    decision = describe(memory, host, picture, actions, proposals)
    return memory, replace(
        decision,
        refused=refused,
        foreign=foreign,
        nodes=nodes,
        memory_moves=tuple(picture.memory_moves.values()),
        memory_pace_kib_per_s=memory_paces(host, nodes, policy),
        escalations=told,
    )


def controllers(
    host: Host,
    memory: Memory,
    nodes: tuple[NodeView, ...],
    picture: Picture,
    policy: Policy,
    is_look_due: bool,
) -> Iterator[Want]:
    """What each controller would like; they do not know of each other."""
    now_s, wanted = picture.at_s, policy.controllers
    is_hurt = any(vp.detection for vp in host.vps.values())
    looks = is_look_due and Controller.REARRANGE in wanted
    if is_hurt or looks or Controller.MERLIN in wanted:
        outlook = Outlook(host, picture.limits, policy)
        if Controller.VP in wanted:
            yield from mitigation(host, outlook, memory, now_s, policy)
        if looks:
            yield from rearrange(host, outlook, memory, nodes, now_s, policy)
        if Controller.MERLIN in wanted:
            yield from demands(host, outlook, memory, now_s, policy)
    yield from keep_caps(host, memory, picture, policy)
    yield from homing(host, picture.mode, policy)


def respect(memory: Memory, picture: Picture) -> tuple[Picture, Memory, tuple[str, ...]]:
    """A placement or quota that is neither ours nor the original is somebody else's: so is the
    guest from then on."""
    seen = {
        guest.uuid: guest.generation
        for guest in picture.guests
        if (applied := picture.applied.get(guest.uuid))
        and guest.unmanaged is None
        and (
            _is_foreign(applied, Knob.PLACEMENT, guest.cpus)
            or _is_foreign(applied, Knob.CPU_CAP, guest.quota)
        )
    }
    generations = {guest.uuid: guest.generation for guest in picture.guests}
    kept = {u: g for u, g in memory.foreign.items() if generations.get(u) == g}
    foreign = {**kept, **seen}
    if not foreign and not memory.foreign:
        return picture, memory, ()
    guests = tuple(_left_alone(g) if g.uuid in foreign else g for g in picture.guests)
    return replace(picture, guests=guests), replace(memory, foreign=foreign), tuple(seen)


def _is_foreign(applied: Applied, knob: Knob, now: Value) -> bool:
    held = applied.of(knob)
    return held is not None and now not in (held.value, held.original)


def _left_alone(guest: Guest) -> Guest:
    if guest.unmanaged:
        return guest
    detail = (
        "its vCPUs were placed or limited by hand or by another tool; reboot it to hand it back"
    )
    return guest._replace(unmanaged=Unmanaged.FOREIGN_CHANGE, unmanaged_detail=detail)


def measure(memory: Memory, picture: Picture, policy: Policy) -> Memory:
    """Every guest's sample and state; guests that left are forgotten."""
    vps = {}
    for guest in picture.guests:
        vp = memory.vps.get(guest.uuid) or Tracked(guest.uuid)
        if vp.generation != guest.generation:
            vp = vp._replace(
                is_homed=False, moved_at_s=None, state=None, detection=None, samples_seen=0
            )
        if guest.unmanaged in _LET_GO_OF and vp.is_homed:
            # Opted in again, or still here after a failed migration, it arrives anew.
            vp = vp._replace(is_homed=False, moved_at_s=None)
        if guest.uuid in picture.applied and not vp.is_homed:
            vp = vp._replace(is_homed=True)
        seen = observe(vp, guest, picture, policy, memory.placed_at_s)
        vps[guest.uuid] = classify(seen, policy)
    copied = measured_copy_kib_per_s(memory.copy_kib_per_s, picture.memory_moves)
    return forget_ended_caps(replace(memory, vps=vps, copy_kib_per_s=copied), picture)


def detect_all(
    memory: Memory,
    host: Host,
    nodes: tuple[NodeView, ...],
    picture: Picture,
    policy: Policy,
) -> tuple[Memory, Mapping[str, Verdict]]:
    vps, undisturbed, verdicts = {}, {}, {}
    on_probe = lifted_lately(memory, picture.at_s, policy)
    on_trial = {pending.action.victim_uuid for pending in memory.pending}
    limits = picture.limits
    queues = {
        view.node: queueing_ratio(view.misses_per_s, limits.node_misses_per_s) for view in nodes
    }
    for uuid, vp in memory.vps.items():
        domains = host.domains_of[uuid]
        domain_id = domains[0].id if domains else 0
        before = memory.undisturbed.get(uuid) or memory.profiles.get(uuid)
        neighbours = host.neighbours[uuid]
        conditions = Conditions(
            host.evicted_ratio(uuid), memory_ratio(host, uuid, queues, limits), on_probe
        )
        found = detect(vp, before, neighbours, domain_id, picture.at_s, policy, conditions)
        found = look_beyond_cache(found, vp, before, host, nodes, picture, policy, uuid in on_trial)
        vps[uuid], verdicts[uuid] = pace_from_onset(found.vp, vp, picture.at_s), found.verdict
        if found.undisturbed:
            undisturbed[uuid] = found.undisturbed
    return replace(memory, vps=vps, undisturbed=undisturbed), verdicts


def permit(
    actions: Iterable[Action], picture: Picture, policy: Policy
) -> tuple[tuple[Action, ...], tuple[Action, ...]]:
    """Which of the planned actions the modes let us do; the others are proposals."""
    may: list[Action] = []
    proposals: list[Action] = []
    modes = {guest.uuid: guest.mode for guest in picture.guests if guest.mode}
    for action in actions:
        ordered = mode_of(action, Mode.ENFORCE, modes)
        (may if _is_permitted(action, ordered, picture, policy) else proposals).append(action)
    return tuple(may), tuple(proposals)


def mode_of(action: Action, host: Mode, ordered: Mapping[str, Mode]) -> Mode:
    """The tightest of the host's and those ordered for the servers that it would touch."""
    return tightest(host, *(ordered.get(change.guest_uuid, host) for change in action.changes))


def _is_permitted(action: Action, ordered: Mode, picture: Picture, policy: Policy) -> bool:
    mode = tightest(picture.mode, ordered)
    if mode is Mode.ENFORCE or action.reason is Reason.REVOKED:
        return True
    is_home = action.reason is Reason.HOME and policy.home_on_arrival is Homing.ALWAYS
    if is_home and ordered is Mode.ENFORCE:
        return True
    if mode is Mode.OBSERVE:
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
    guest = host.guests[vp.guest_uuid]
    return VpView(
        guest=guest,
        domain_ids=host.domain_ids[guest.placement],
        sample=vp.sample,
        incomplete=vp.incomplete,
        state=vp.state,
        since_s=vp.since_s,
        sensitivity=undisturbed.sensitivity if undisturbed else Sensitivity(),
        undisturbed=undisturbed,
        detection=vp.detection,
        history=vp.history,
    )
