# SPDX-License-Identifier: Apache-2.0
"""How fast memory may move: copying is a bandwidth storm of its own (Merlin, thesis 3.2.3).

Where neither controller is busy a move goes at full pace; where one is busy and serves somebody
sensitive, it is phased out in time, unless the guest that moves matters more than those it hurts.
A controller that serves many times as much does not notice a copy, and the longer that takes, the
longer its guest is far from its memory. Nothing here starts or ends a move.
"""

from collections.abc import Mapping

from nova_vp.core.model.host import Host
from nova_vp.core.types.decision import NodeView
from nova_vp.core.types.guest import MemoryMove
from nova_vp.core.types.policy import Policy

BUSY_SHARE = 0.5
"""Of its limit, from which a controller that copies may notice it."""
NOTICED_SHARE = 0.1
"""Of the lines that a controller serves already, from which on a copy is more than noise."""
LINES_PER_KIB = 16


def copy_rates(host: Host, nodes: tuple[NodeView, ...], policy: Policy) -> Mapping[str, float]:
    """KiB per second for each move under way."""
    return {
        uuid: _copy_rate(host, move, nodes, policy)
        for uuid, move in host.memory_moves.items()
        if not move.is_over and uuid in host.guests
    }


def _copy_rate(host: Host, move: MemoryMove, nodes: tuple[NodeView, ...], policy: Policy) -> float:
    full = policy.memory_pace_kib_per_s
    between = {node for node, _ in move.to} | set(host.memory_of(move.guest_uuid))
    busy = {
        view.node
        for view in nodes
        if _is_busy(view) and LINES_PER_KIB * full > NOTICED_SHARE * view.misses_per_s
    }
    mine = host.guests[move.guest_uuid].priority
    sensitive = [
        guest.priority
        for uuid, guest in host.guests.items()
        if uuid != move.guest_uuid
        and (profile := host.undisturbed.get(uuid))
        and profile.sensitivity.memory
        and any(host.memory_of(uuid).get(node, 0.0) > 0 for node in between & busy)
    ]
    return full if not sensitive or mine > max(sensitive) else full * policy.phased_pace_ratio


def _is_busy(view: NodeView) -> bool:
    limit = view.limit_misses_per_s
    return view.is_hot or (limit is not None and view.misses_per_s > BUSY_SHARE * limit)
