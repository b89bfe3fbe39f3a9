# SPDX-License-Identifier: Apache-2.0
"""No pin and no cap of ours outlives a live migration, whoever asked for it.

Two servers go through it, one act after the other; `long_orphans` has the other kinds of move. One
is held by the actuator that writes into the XML, which travels, one by the one that does not.
Before each act both are pinned and capped. No agent homes anybody: what stands is what was left.
"""

import signal
from contextlib import ExitStack, contextmanager, suppress

import pytest

from testbed.lab import cloud, settings
from tests.lab.held import Given, Held, hold, leftovers, missing, orphans
from tests.lab.hosts import HOSTS, order
from tests.lab.operators import host_conf, reconfigured

HOOKS = ("etc", "libvirt", "hooks")
QUOTA = Given(80_000)
SPECS = {"quota:cpu_period": "100000", "quota:cpu_quota": str(QUOTA.quota_us)}
NO_HOMING = "[controller_initial_placement]\nhome_on_arrival = never"
RELEASE_DEADLINE_S = 60
"""The timer's five seconds, fifteen of silence, and what libvirt needs."""
NOVA_DEADLINE_S = 120
CRAWL_MIB_S = "1"
"""Slower than the guests dirty their memory: such a migration ends only by somebody's word."""


class Convoy:
    """The servers, where they are, and what Nova gave them."""

    def __init__(self, admin):
        self.admin = admin
        self.given = QUOTA
        cloud.put_flavor(admin, "t.convoy", specs=SPECS)
        cloud.put_flavor(admin, "t.convoy-larger", ram=128)
        self.host = HOSTS[0]
        self.servers = [
            cloud.boot(admin, f"t-{kind}", "t.convoy", "work=stream:8192", host=self.host)
            for kind in ("kernel", "libvirt")
        ]
        self.held = [
            Held(s.id, admin.compute.get_server(s.id).instance_name, s.name.removeprefix("t-"))
            for s in self.servers
        ]

    @property
    def other(self):
        return next(name for name in HOSTS if name != self.host)

    def hold(self):
        """Whatever an act that failed has left is no matter of the next one."""
        assert order(self.host, "release") is True
        hold(self.host, self.held)
        self.assert_held()

    def assert_held(self):
        assert {one.actuator: missing(self.host, one) for one in self.held} == {
            one.actuator: [] for one in self.held
        }

    def each(self, call):
        for server in self.servers:
            call(server)

    def wait_for(self, status, host=None):
        """Until Nova is done with both, there."""

        def is_there(server):
            now = self.admin.compute.get_server(server.id)
            if now.status == "ERROR":
                raise cloud.LabError(f"{server.name}: {(now.fault or {}).get('message')}")
            is_where = host in (None, now.compute_host)
            return now.status == status and now.task_state is None and is_where

        what = f"both servers to be {status} on {host or 'any host'}"
        cloud.wait_for(lambda: all(map(is_there, self.servers)), what, deadline_s=NOVA_DEADLINE_S)
        self.host = host or self.host

    def assert_free(self, deadline_s=0):
        """At once, or as soon as the agent has seen what arrived."""
        with suppress(cloud.LabError):
            cloud.wait_for(lambda: not self.orphans(), "nothing", deadline_s=deadline_s)
        assert self.orphans() == {}

    def orphans(self):
        return {one.actuator: found for one in self.held if (found := self.orphans_of(one))}

    def orphans_of(self, one):
        return orphans(self.host, one, self.given)

    def assert_nothing_left(self, host):
        """Soon: libvirt and Nova clear up behind a migration that has failed."""
        with suppress(cloud.LabError):
            cloud.wait_for(lambda: not self.left_on(host), "nothing", deadline_s=60)
        assert self.left_on(host) == []

    def left_on(self, host):
        return [found for one in self.held for found in leftovers(host, one)]

    def migrations(self, server):
        """Nova's own list of its live migrations, the last one first."""
        kind = "live-migration"
        return list(self.admin.compute.migrations(instance_uuid=server.id, migration_type=kind))

    def recover(self, server):
        """Nova 34 calls a server an ERROR whose migration was aborted, though it runs on where it
        was; an operator says that it does not.
        """
        compute = self.admin.compute

        def is_over():
            rows = self.migrations(server)
            return rows[0].status in ("cancelled", "error", "failed")

        cloud.wait_for(is_over, "the migration to end", deadline_s=NOVA_DEADLINE_S)
        with suppress(cloud.LabError):  # The last that it does, after the rollback.
            cloud.wait_for(
                lambda: compute.get_server(server.id).status == "ERROR", "Nova", deadline_s=60
            )
        compute.reset_server_state(server, "active")
        self.wait_for("ACTIVE", self.host)

    def of(self, server):
        return next(one for one in self.held if one.server_id == server.id)


@pytest.fixture(scope="module")
def convoy(admin):
    with ExitStack() as stack:
        for host in HOSTS:
            conf = host_conf(host)
            stack.enter_context(reconfigured(conf, NO_HOMING, f"vp-agent@{host}"))
        yield Convoy(admin)


@contextmanager
def without_agent(host):
    cloud.stop(f"vp-agent@{host}", signal.SIGKILL)
    try:
        yield
    finally:
        cloud.start(f"vp-agent@{host}")


@contextmanager
def without_hook(host):
    folder = settings.RUN.joinpath(host, *HOOKS)
    hook, aside = folder / "qemu.d" / "nova-vp", folder / "nova-vp.aside"
    hook.rename(aside)
    try:
        yield
    finally:
        aside.rename(hook)


@contextmanager
def on_its_way(convoy, server):
    """A live migration of one server to the other host that nobody but us will end."""
    one = convoy.of(server)
    usual = cloud.shell(convoy.host, "virsh", "migrate-getspeed", one.instance).stdout.strip()
    cloud.shell(convoy.host, "virsh", "migrate-setspeed", one.instance, CRAWL_MIB_S)
    before = len(convoy.migrations(server))
    convoy.admin.compute.live_migrate_server(server, host=convoy.other, block_migration="auto")

    def running():
        rows = convoy.migrations(server)
        return rows[0] if len(rows) > before and rows[0].status == "running" else None

    yield cloud.wait_for(running, f"{server.name} to be on its way", deadline_s=NOVA_DEADLINE_S)
    convoy.recover(server)
    cloud.shell(convoy.host, "virsh", "migrate-setspeed", one.instance, usual)


def live_migrate(convoy):
    convoy.hold()
    there = convoy.other
    for server in convoy.servers:
        cloud.live_migrate(convoy.admin, server, there)
    convoy.host = there


def test_live_migration_with_hook_and_agent(convoy):
    live_migrate(convoy)
    convoy.assert_free(deadline_s=60)
    convoy.assert_nothing_left(convoy.other)


def test_live_migration_to_a_dead_agent(convoy):
    """The hook alone, and from the first moment on; of the persistent XML, which it never sees, the
    timer's `vp-agent release --expired` takes care.
    """
    with without_agent(convoy.other):
        live_migrate(convoy)
        of_running = {one.actuator: convoy.orphans_of(one) for one in convoy.held}
        assert all(what.startswith("persistent") for found in of_running.values() for what in found)
        convoy.assert_free(deadline_s=RELEASE_DEADLINE_S)


def test_live_migration_from_a_dead_agent_to_a_host_without_a_hook(convoy):
    """What arrives is a stranger's to the agent there."""
    with without_hook(convoy.other):
        convoy.hold()
        with without_agent(convoy.host):
            there = convoy.other
            for server in convoy.servers:
                cloud.live_migrate(convoy.admin, server, there)
        convoy.host = there
        convoy.assert_free(deadline_s=60)
