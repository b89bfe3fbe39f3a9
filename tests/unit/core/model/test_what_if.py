# SPDX-License-Identifier: Apache-2.0
"""What is foretold to everybody on a host whose memory controllers were calibrated."""

from dataclasses import replace

import pytest

from nova_vp.core.model.host import build_host
from nova_vp.core.model.what_if import WhatIfModel
from nova_vp.core.types.topology import Limits
from tests.unit.core.build import Host, Rates, nodes_of, uuid_of
from tests.unit.core.wishful import NOBODY

LIMITS = Limits(node_misses_per_s=3.5e6)
"""Of 5 million that the controller serves."""
HUNGRY = Rates(mips=75, l2_mpki=70.0, mpki=60.0, cpi=2.0, cores=1.0)
"""4.5 million misses per second: nine tenths of what the controller serves."""


def losses(**rates: Rates) -> dict[str, float]:
    """Foretold to servers with an LLC each, all with their memory on one node."""
    host = Host(nodes_of(*[0] * len(rates)), NOBODY, limits=LIMITS)
    for domain, (name, own) in zip(host.topology.domains, rates.items(), strict=True):
        host.add(name, own, cpus=set(domain.cpus), node=0)
    host.ticks(6)
    seen = build_host(host.picture(), host.state.vps, host.state.undisturbed)
    asked = WhatIfModel(seen, host.limits, host.policy)
    return {name: asked.loss(uuid_of(name)) for name in rates}


def test_who_fills_a_calibrated_controller_by_itself_loses_nothing_to_others() -> None:
    """What it waits for itself is in what it was measured to need."""
    assert losses(alone=HUNGRY)["alone"] == pytest.approx(0.0, abs=0.01)
    half = replace(HUNGRY, mips=HUNGRY.mips / 2)
    assert losses(one=half, other=half)["one"] > 0.05, "together they fill it as much"
