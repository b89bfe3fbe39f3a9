# SPDX-License-Identifier: Apache-2.0
"""Servers with a network interface: an application of three tiers on two hosts, and a stream.

Requests come from the controller, over the lab's own network, the bridges of the hosts and the taps
that Nova made. The acts build on each other, in file order.
"""

import http.client
import re
import threading
from contextlib import closing
from xml.etree import ElementTree

import pytest

from testbed.lab import cloud, stream
from tests.lab.hosts import HOSTS
from vp_agent.drivers.nics import nics_in

HOST, OTHER = HOSTS
WEB, APP, DB, PLAYER = (f"10.77.0.{number}" for number in range(220, 224))
TIERS = {
    "db": (DB, OTHER, "tier:browse=1;bid=20"),
    "app": (APP, OTHER, f"tier:browse=5;bid=10;next={DB}"),
    "web": (WEB, HOST, f"tier:browse=20;bid=5;next={APP}"),
}
FPS, STREAM_S = 25.0, 8.0
RATE = re.compile(r"^RATE frames .* ops=(\d+) .* damaged=(\d+)", re.MULTILINE)


@pytest.fixture(scope="module")
def servers(admin):
    return {
        name: cloud.boot(admin, name, user_data=f"work={work}\n", host=host, address=address)
        for name, (address, host, work) in TIERS.items()
    }


def status_of(method, path):
    """Of an answer of the web tier; None: it gives none."""
    with closing(http.client.HTTPConnection(WEB, timeout=5)) as client:
        try:
            client.request(method, path)
            with client.getresponse() as answer:
                return answer.status
        except OSError:
            return None


def taps(host):
    """Devices on the bridge of a host that are of servers."""
    lines = cloud.shell(host, "ip", "-oneline", "link", "show", "master", "guests").stdout
    return re.findall(r"^\d+: (tap[^:]+):", lines, re.MULTILINE)


def test_an_application_of_three_tiers_answers_over_two_hosts(servers):
    cloud.wait_for(
        lambda: status_of("GET", "/browse/1") == 200, "the tiers to boot", deadline_s=120
    )
    assert status_of("POST", "/bid") == 200
    assert status_of("GET", "/unheard-of") == 404
    assert (len(taps(HOST)), len(taps(OTHER))) == (1, 2)


def test_the_agent_knows_the_interface_by_its_tap(servers):
    xml = cloud.shell(HOST, "virsh", "dumpxml", servers["web"].instance_name).stdout
    [nic] = nics_in(ElementTree.fromstring(xml))
    assert nic.has_tap
    assert [nic.device] == taps(HOST)


def test_a_tier_keeps_its_address_when_it_is_migrated(admin, servers):
    assert cloud.live_migrate(admin, servers["web"], OTHER) == OTHER
    cloud.wait_for(
        lambda: status_of("GET", "/browse") == 200, "the web tier to answer", deadline_s=30
    )
    assert (len(taps(HOST)), len(taps(OTHER))) == (0, 3)


def test_a_player_counts_the_frames_of_a_stream(admin, servers):
    player = cloud.boot(
        admin, "player", user_data="work=frames:decode=50\n", host=HOST, address=PLAYER
    )
    cloud.wait_for(
        lambda: "RATE frames" in cloud.console(admin, player), "the player", deadline_s=120
    )
    sender = threading.Thread(target=stream.send, args=(PLAYER, FPS, 10, STREAM_S))
    sender.start()
    sender.join()

    def most_frames():
        rates = [int(ops) for ops, _ in RATE.findall(cloud.console(admin, player))]
        return max(rates) if max(rates, default=0) > 0.8 * FPS else None

    assert cloud.wait_for(most_frames, "the frames of a whole second", deadline_s=30) <= 1.2 * FPS


def test_servers_that_end_leave_neither_taps_nor_ports(admin, servers):
    cloud.delete(admin, *admin.compute.servers(all_projects=True))
    assert taps(HOST) == taps(OTHER) == []
    assert list(admin.network.ports()) == []
