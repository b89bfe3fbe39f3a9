# SPDX-License-Identifier: Apache-2.0
"""Sensitivity to memory (thesis 3.2.1): what is in use of what was allotted, and where it lies."""

import pytest

from nova_vp.core.controllers.merlin.fairness import local_share, memory_sensitivity
from nova_vp.core.model.host import Host as SeenHost
from nova_vp.core.model.host import build_host
from nova_vp.core.model.location import Location
from tests.unit.core.build import ALL_KNOBS, Host, Rates, nodes_of, uuid_of
from tests.unit.core.controllers.merlin.hosts import POLICY, STORE, WORKER


def seen(rates: Rates, kib: int = 49_152) -> SeenHost:
    host = Host(nodes_of(0, 1), POLICY, knobs=ALL_KNOBS)
    host.add("vm", rates, cpus={0}, memory_kib=98_304, memory_by_node=((0, kib),))
    host.ticks(6)
    return build_host(host.picture(), host.state.vps, host.state.undisturbed)


@pytest.mark.parametrize(("kib", "ratio"), [(98_304, 1.0), (49_152, 0.5)])
def test_memory_sensitivity_is_pages_in_use_over_pages_allotted(kib, ratio):
    host = seen(STORE, kib)
    assert memory_sensitivity(host, host.guests[uuid_of("vm")]) == ratio


def test_who_minds_no_distance_has_no_memory_sensitivity():
    host = seen(WORKER)
    assert memory_sensitivity(host, host.guests[uuid_of("vm")]) == 0.0


@pytest.mark.parametrize(
    ("domains", "memory", "share"),
    [
        ({0: 1.0}, {0: 1.0}, 1.0),
        ({0: 1.0}, {1: 1.0}, 0.0),
        ({0: 0.5, 1: 0.5}, {0: 1.0}, 0.5),
        ({0: 0.5, 1: 0.5}, {0: 0.5, 1: 0.5}, 0.5),
    ],
)
def test_what_it_receives_of_its_memory_is_the_local_share(domains, memory, share):
    assert local_share(seen(STORE), Location(domains, memory)) == share
