# SPDX-License-Identifier: Apache-2.0
"""How much of its performance a VP loses to what degrades it, as measured."""

from nova_vp.core.types.detection import WAITING
from nova_vp.core.types.state import VpState


def degradation_ratio(vp: VpState) -> float:
    """By its means since it is degraded or places last changed, since one sample is off by several
    percent; 0: nothing degrades it."""
    found, window = vp.detection, vp.window
    if found is None:
        return 0.0
    if found.kind in WAITING or not window.samples:
        return found.measured_loss_ratio
    return max(0.0, 1 - found.before.cpi / window.cpi) if window.cpi else 0.0
