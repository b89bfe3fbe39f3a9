# SPDX-License-Identifier: Apache-2.0
"""The decision as readers see it: every VP, and what a newcomer would find in each LLC domain."""

from collections.abc import Mapping
from dataclasses import replace

from nova_vp.core.controllers.base import View
from nova_vp.core.model.degradation import degradation_ratio
from nova_vp.core.model.domain_table import domain_views
from nova_vp.core.model.host import Host
from nova_vp.core.model.what_if import WhatIfModel
from nova_vp.core.pipeline.controllers import Claimed
from nova_vp.core.types.action import Action
from nova_vp.core.types.decision import Decision, VpView
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.sample import Sensitivity
from nova_vp.core.types.state import CoreState, VpState

DOMAINS_EVERY_S = 15.0
"""The domains' predict tables are made anew this often, and at once when a state or placement
changed: they cost more than the rest of a tick."""


_UNKNOWN = Sensitivity()


def tabulate(state: CoreState, host: Host, view: View, policy: Policy) -> CoreState:
    """`host`: as this tick leaves it. Where nobody goes elsewhere that is the controllers', and
    their model tells what a newcomer costs there."""
    now_s = view.now_s
    key = hash(tuple((u, vp.state, host.guests[u].placement) for u, vp in host.vps.items()))
    if key == state.domains_key and now_s - state.domains_at_s < DOMAINS_EVERY_S:
        return state
    is_as_seen = host is view.host
    what_if = view.what_if if is_as_seen else WhatIfModel(host, view.picture.limits, policy)
    views = domain_views(host, what_if, policy)
    return replace(state, domains=views, domains_at_s=now_s, domains_key=key)


def describe(
    state: CoreState,
    host: Host,
    picture: Picture,
    actions: tuple[Action, ...],
    proposals: tuple[Action, ...],
    claimed: Claimed,
    would_be: Host,
) -> Decision:
    """`would_be`: the host with virtual places."""
    views = tuple(_view(host, state.vps[guest.uuid], claimed, would_be) for guest in picture.guests)
    return Decision(
        at_s=picture.at_s,
        mode=picture.mode,
        vps=views,
        domains=state.domains,
        detections=tuple(view.detection for view in views if view.detection),
        proposals=proposals,
        actions=actions,
        class_room=claimed.class_room,
        steal_ratio=state.host_cpu.steal_ratio if state.host_cpu.samples else None,
    )


def _view(host: Host, vp: VpState, claimed: Claimed, would_be: Host) -> VpView:
    undisturbed = host.undisturbed.get(vp.guest_uuid)
    guest = host.guests[vp.guest_uuid]
    virtual = would_be.domain_ids[would_be.guests[guest.uuid].placement]
    domain_ids = host.domain_ids[guest.placement]
    return VpView(
        guest=guest,
        domain_ids=domain_ids,
        virtual_domain_ids=() if virtual == domain_ids else virtual,
        sample=vp.sample,
        incomplete=vp.incomplete,
        state=vp.state,
        since_s=vp.since_s,
        sensitivity=undisturbed.sensitivity if undisturbed else _UNKNOWN,
        undisturbed=undisturbed,
        detection=vp.detection,
        history=vp.history,
        cpu_use=vp.cpu_use,
        figures=_figures(guest.uuid, claimed) if claimed.figures else {},
        usage=claimed.usage.get(guest.uuid, ()),
        degradation_ratio=degradation_ratio(vp),
    )


def _figures(uuid: str, claimed: Claimed) -> Mapping[str, Mapping[str, float | str]]:
    return {name: by[uuid] for name, by in claimed.figures.items() if uuid in by}
