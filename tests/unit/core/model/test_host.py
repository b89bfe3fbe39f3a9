# SPDX-License-Identifier: Apache-2.0
"""Places that are taken, and memory that is on its way: what a plan reckons with."""

from nova_vp.core.model.host import build_host
from nova_vp.core.model.location import location_of
from nova_vp.core.types.guest import MemoryMove
from tests.unit.core.build import uuid_of
from tests.unit.core.hosts import far_away


def test_plans_go_by_where_memory_will_be():
    host = far_away()
    uuid, kib = uuid_of("victim"), host.guest("victim").memory_kib
    host.memory_moves = {uuid: MemoryMove(uuid, ((0, 1.0),), moved_kib=0, left_kib=kib)}
    seen = build_host(host.picture(), host.state.vps, host.state.undisturbed)
    assert (seen.memory_of(uuid), location_of(seen, uuid).memory) == ({1: 1.0}, {0: 1.0})
