# SPDX-License-Identifier: Apache-2.0
"""What a reconfiguration costs by itself, whatever it brings (Merlin, thesis 3.2.2).

The host's own figures where it has moved memory before, the published ones until then. Moving a
vCPU costs 1.78 us (thesis 2.1.3) and the refill of its cache, which is nothing beside seconds of
hurt, so only memory has a price.
"""

from collections.abc import Iterable, Mapping

from nova_vp.core.model.host import Host
from nova_vp.core.types.claim import Setting
from nova_vp.core.types.guest import MemoryMove
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.policy import Policy

PAGE_KIB = 4
COPY_NS_PER_PAGE = 430.0
"""Thesis 2.1.3, for pages of 4 KiB."""
PRICED_S = 8.0
"""Of copying, for which `memory_move_price_ratio` is the price."""


def measured_copy_kib_per_s(known: float | None, moves: Mapping[str, MemoryMove]) -> float | None:
    """The newest figure of this host's copying; None: it never copied."""
    seen = [move.kib_per_s for move in moves.values() if move.kib_per_s > 0]
    return seen[-1] if seen else known


def copying_s(kib: float, measured_kib_per_s: float | None, policy: Policy) -> float:
    """At the pace that moves have while nobody minds, or what the host manages if that is less."""
    able = measured_kib_per_s or PAGE_KIB / (COPY_NS_PER_PAGE / 1e9)
    return kib / min(able, policy.memory_pace_kib_per_s)


def price(
    settings: Iterable[Setting], host: Host, measured_kib_per_s: float | None, policy: Policy
) -> float:
    """Gain that these settings must bring on top: the smaller footprint is the cheaper one."""
    kib = sum(host.guests[s.guest_uuid].memory_kib for s in settings if s.knob is Knob.MEMORY)
    return policy.memory_move_price_ratio * copying_s(kib, measured_kib_per_s, policy) / PRICED_S
