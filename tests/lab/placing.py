# SPDX-License-Identifier: Apache-2.0
"""Where a new server is put on two hosts, of which one is hostile. No assertions on the choice.

A host is hostile when a stream runs in each of its LLC domains. On the quiet one as many servers
with more memory do no harm, so that of Nova's weighers only the one for RAM has a preference: for
the hostile host.
"""

from testbed.lab import cloud
from tests.lab.hosts import HOSTS, wait_until_homed
from tests.lab.operators import wait_until_told

STREAM, BALLAST = ("vp.tiny", "work=stream:8192", 8), ("t.ballast", "work=compute", 0)
"""Flavor, work, and the state in which both hosts' agents will see it."""


class World:
    """The residents of both hosts, and requests for more."""

    def __init__(self, admin, *, one_at_a_time=False):
        self.admin = admin
        self.one_at_a_time = one_at_a_time
        self.pairs = []
        cloud.put_flavor(admin, "t.ballast", ram=256)
        cloud.put_flavor(admin, "t.plain")
        for isolation in ("soft", "strict"):
            cloud.put_flavor(admin, f"t.{isolation}", specs={"vp:isolation": isolation})

    def fill(self, host, kind):
        """Two servers of a kind, which the agent puts into one LLC domain each."""
        flavor, work, _ = kind
        names = [f"t-{host}-{flavor}-{n}" for n in range(2)]
        pair = [
            cloud.boot(self.admin, name, flavor, work, host=host, wait=self.one_at_a_time)
            for name in names
        ]
        self.pairs.append((host, kind, pair))

    def clear(self, host, kind):
        [gone] = [entry for entry in self.pairs if entry[:2] == (host, kind)]
        self.pairs.remove(gone)
        cloud.delete(self.admin, *gone[2])

    def settle(self):
        """Until both hosts have published what runs there."""
        for host, _, pair in self.pairs:
            assert {wait_until_homed(host, server.id) for server in pair} == {0, 1}
        for host in HOSTS:
            pairs = [(kind, pair) for where, kind, pair in self.pairs if where == host]
            states = {server.id: kind[2] for kind, pair in pairs for server in pair}
            wait_until_told(self.admin, host, states)

    def place(self, flavor):
        """Where a server is put, and what our plugins said of it; the server is gone again."""
        name = f"t-newcomer-{flavor}"
        try:
            server = cloud.boot(self.admin, name, flavor)
            return cloud.server_host(self.admin, server), cloud.placement_reason(server.id)
        finally:
            cloud.delete(self.admin, self.admin.compute.find_server(name))


def wait_for_choice(world, flavor, host):
    """Asks until a server is put there; what our plugins said of it.

    Knowledge comes and goes with the digests: a server's first seconds are not yet its habit, and
    the last digest of an agent may still know of the server that was here a moment ago.
    """

    def chosen():
        try:
            placed_on, reason = world.place(flavor)
        except cloud.LabError as exc:
            if "No valid host" not in str(exc):
                raise
            return None
        return reason if placed_on == host else None

    return cloud.wait_for(chosen, f"a {flavor} on {host}", deadline_s=120)


def wait_until_refused(world, flavor):
    """Asks until no host is left: what a server was before its habit is known may still count."""

    def is_refused():
        try:
            world.place(flavor)
        except cloud.LabError as exc:
            return "No valid host" in str(exc)

    cloud.wait_for(is_refused, f"a {flavor} to be refused", deadline_s=120)
