# SPDX-License-Identifier: Apache-2.0
"""Every guest's sample and state of this tick."""

from dataclasses import replace

from nova_vp.core.model.cost import measured_copy_kib_per_s
from nova_vp.core.model.states import classify
from nova_vp.core.signals.cpu_use import sample_cpu_use, sample_host_cpu
from nova_vp.core.signals.sample import sample_vp
from nova_vp.core.types.guest import LET_GO_OF
from nova_vp.core.types.picture import Picture
from nova_vp.core.types.policy import Policy
from nova_vp.core.types.sample import NO_MISS_COST
from nova_vp.core.types.state import CoreState, VpState


def measure(state: CoreState, picture: Picture, policy: Policy) -> CoreState:
    """Every guest's sample and state; guests that left are forgotten."""
    placed_at_s = state.placed_at_s
    if any(move.is_over for move in picture.memory_moves.values()):
        # Copying slows many: what was measured meanwhile says nothing of the new places.
        placed_at_s = picture.at_s
    vps = {}
    for guest in picture.guests:
        vp = state.vps.get(guest.uuid) or _newly_seen(state, guest.uuid)
        if vp.generation != guest.generation:
            vp = vp._replace(
                vp_id=guest.vp_id,
                project_id=guest.project_id,
                moved_at_s=None,
                state=None,
                detection=None,
                samples_seen=0,
                cpu_use=None,
                recent_cpu_use=None,
            )
        elif vp.vp_id != guest.vp_id:
            vp = vp._replace(vp_id=guest.vp_id)  # Nova's server groups were told meanwhile.
        if guest.unmanaged in LET_GO_OF and vp.moved_at_s is not None:
            # Opted in again, or still here after a failed migration, it arrives anew.
            vp = vp._replace(moved_at_s=None)
        cpu_use = sample_cpu_use(vp, guest, picture, policy, placed_at_s)
        seen = sample_vp(vp, guest, picture, policy, placed_at_s, cpu_use)
        vps[guest.uuid] = classify(seen, policy)
    copied = measured_copy_kib_per_s(state.copy_kib_per_s, picture.memory_moves)
    loosened = {uuid: at_s for uuid, at_s in state.loosened_at_s.items() if uuid in vps}
    return replace(
        state,
        vps=vps,
        placed_at_s=placed_at_s,
        copy_kib_per_s=copied,
        loosened_at_s=loosened,
        host_cpu=sample_host_cpu(state.host_cpu, picture.host_cpu),
    )


def _newly_seen(state: CoreState, uuid: str) -> VpState:
    return VpState(uuid, miss_cost=state.miss_costs.get(uuid, NO_MISS_COST))
