# SPDX-License-Identifier: Apache-2.0
"""Six newcomers, each put onto a host of the lab: where the filter forbids it, by force.

`make pair-test`; takes some minutes and is no part of `make lab-test`. What the filter forbids must
truly hurt, by more than a tenth of somebody's rate, and what it allows must not.
"""

import pytest

from testbed.lab import cloud
from tests.lab.hosts import set_mode, wait_until_homed
from tests.lab.operators import wait_until_told
from tests.lab.rates import Rates
from tests.lab.stage import CHASE, STREAM, three_hosts

STORMY, DELICATE, CALM = "vp1", "vp2", "vp3"
NEWCOMERS = {
    "chaser": (CHASE, "chase", "cache"),
    "stream": (STREAM, "stream", "streaming"),
    "thinker": ("work=compute", "compute", "quiet"),
}
RESIDENTS = {
    STORMY: ("work=stream:8192", 8),
    DELICATE: ("work=chase:320", 0),
    CALM: ("work=idle", None),
}
LIMIT_RATIO = 0.1


@pytest.fixture(scope="module")
def world(admin):
    """Two residents of one kind on each host, one in each of its caches."""
    with three_hosts("[vp_scheduler]"):
        for host in RESIDENTS:
            set_mode(host, "advise")
        for name, (_, _, expects) in NEWCOMERS.items():
            specs = {"vp:isolation": "strict", "vp:expects": expects}
            cloud.put_flavor(admin, f"t.{name}", specs=specs)
        cloud.put_flavor(admin, "t.delicate", specs={"vp:isolation": "strict"})
        yield World(admin)


class World:
    def __init__(self, admin):
        self.admin = admin
        self.solo = {}
        for name, (work, kind, _) in NEWCOMERS.items():
            self.solo[name] = self.alone(name, work, kind)
        self.residents = {host: self.settle(host, *what) for host, what in RESIDENTS.items()}
        self.resident_ops = {
            server.id: self.rate(DELICATE, server, "chase") for server in self.residents[DELICATE]
        }

    def alone(self, name, work, kind):
        server = cloud.boot(self.admin, f"t-alone-{name}", "vp.tiny", work, host=CALM)
        wait_until_homed(CALM, server.id)
        ops = self.rate(CALM, server, kind)
        cloud.delete(self.admin, server)
        return ops

    def settle(self, host, work, state):
        flavor = "t.delicate" if host == DELICATE else "vp.tiny"
        pair, homes = [], set()
        for number in range(2):
            server = cloud.boot(self.admin, f"t-{host}-{number}", flavor, work, host=host)
            homes.add(wait_until_homed(host, server.id))
            if state is not None:  # The filter may refuse a strict one beside one nobody knows yet.
                wait_until_told(self.admin, host, {one.id: state for one in (*pair, server)})
            pair.append(server)
        assert homes == {0, 1}
        return pair

    def rate(self, host, server, kind):
        instance = self.admin.compute.get_server(server.id).instance_name
        rates = Rates(host, instance)
        rates.follow("one", server.id)
        try:
            return rates.steady("one", kind)
        finally:
            rates.close()

    def ask(self, name, host):
        """For this host by name, which the filters judge like any other request: whether they allow
        it, and what ours said.
        """
        asked = f"t-asked-{name}"
        is_allowed = True
        try:
            cloud.boot(self.admin, asked, f"t.{name}", host=host)
        except cloud.LabError as refusal:
            if "No valid host" not in str(refusal):
                raise
            is_allowed = False
        server = self.admin.compute.find_server(asked)
        cloud.delete(self.admin, server)
        return is_allowed, cloud.placement_reason(server.id)

    def force(self, name, host):
        """As an admin can: the zone names the host, and no filter is asked."""
        work = NEWCOMERS[name][0]
        zone = f"nova:{host}"
        server = cloud.boot(self.admin, f"t-{name}", f"t.{name}", work, availability_zone=zone)
        assert cloud.server_host(self.admin, server) == host
        wait_until_homed(host, server.id)
        return server

    def worst_loss(self, name, host):
        """Of the newcomer, and of a strict resident beside it."""
        server = self.force(name, host)
        losses = [1 - self.rate(host, server, NEWCOMERS[name][1]) / self.solo[name]]
        for resident in self.residents[host] if host == DELICATE else ():
            ops = self.rate(host, resident, "chase")
            losses.append(1 - ops / self.resident_ops[resident.id])
        cloud.delete(self.admin, server)
        return max(losses)


@pytest.mark.parametrize(
    ("name", "host", "is_allowed"),
    [
        ("chaser", STORMY, False),
        ("stream", DELICATE, False),
        ("chaser", DELICATE, False),
        ("thinker", CALM, True),
        ("chaser", CALM, True),
        ("stream", CALM, True),
    ],
)
def test_what_the_filter_says_is_what_is_measured(world, name, host, is_allowed):
    is_let_in, reason = world.ask(name, host)
    assert is_let_in is is_allowed, reason
    loss_ratio = world.worst_loss(name, host)
    print(f"{name} on {host}: allowed={is_allowed} worst loss {loss_ratio:.1%}")
    assert (loss_ratio <= LIMIT_RATIO) is is_allowed
