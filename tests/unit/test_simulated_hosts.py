# SPDX-License-Identifier: Apache-2.0
"""What the simulated agents of the cluster benchmark send is what real receivers take in."""

import random

import pytest

from nova_vp import wire
from tests.bench.simulated_hosts import VPS, Host, Texts
from tests.messages import hear
from vp_scheduler.placement.host_view import HostView


@pytest.fixture
def host() -> Host:
    host = Host(7, random.Random(1))
    host.sequence = 1
    return host


def test_their_digests_are_placed_by(host: Host) -> None:
    view = HostView(180.0)
    hear(view, Texts(random.Random(1)).digest(host))
    digest = view.get("compute-00007")
    assert digest is not None
    assert len(digest.classes) == VPS


def test_their_reports_are_whole(host: Host) -> None:
    message = wire.decode(wire.REPORT_TOPIC, Texts(random.Random(1)).report(host))
    assert [vp["uuid"] for vp in message["vps"]] == host.uuids
    assert all(vp["override"] == {} for vp in message["vps"]), "nobody need tell them again"
