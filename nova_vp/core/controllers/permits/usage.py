# SPDX-License-Identifier: Apache-2.0
"""What a server with a permit is billed for: the permit, what it polluted, and what that cost it.

The same charges that its quota is debited, whatever the mode: a permit is booked on a host that
only observes, too.
"""

from nova_vp.core.controllers.base import View
from nova_vp.core.controllers.permits.accounts import since_settled_s
from nova_vp.core.controllers.permits.declaration import NAME, Account, Charge
from nova_vp.core.model.limits import binding
from nova_vp.core.types.knob import Knob
from nova_vp.core.types.usage import UNMEASURED, Usage

_KILO = 1000.0


def used(view: View, uuid: str, before: Account, charge: Charge | None) -> Usage:
    """Since its account was settled last, which is `before`."""
    booked_s = since_settled_s(before, view.now_s)
    misses = _KILO * charge.span_s * charge.misses_per_ms if charge else 0.0
    return Usage(
        attribution=charge.how.value if charge else UNMEASURED,
        booked_s=booked_s,
        over_s=booked_s if before.is_over else 0.0,
        permit_misses=before.permit * _KILO * booked_s,
        pollution_misses=misses,
        sure_misses=misses * charge.sure_ratio if charge else 0.0,
        cpu_taken_core_s=_taken_cores(view, uuid) * booked_s,
    )


def _taken_cores(view: View, uuid: str) -> float:
    """What a cap denied it, if the tightest one is that of its permit."""
    claim = binding(view.core.claims.get((uuid, Knob.CPU_CAP), ()))
    sample = view.host.vps[uuid].cpu_sample
    if claim is None or claim.controller != NAME or sample is None:
        return 0.0
    return sample.throttled_ours_cores
