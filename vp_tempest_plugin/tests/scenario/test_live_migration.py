# SPDX-License-Identifier: Apache-2.0
"""A live migration leaves nothing of the source's settings behind, on either host."""

from tempest import config
from tempest.common import waiters
from tempest.lib import decorators

from vp_tempest_plugin.tests.scenario import base

CONF = config.CONF


@decorators.serial
class TestLiveMigration(base.ScenarioTest):
    @classmethod
    def skip_checks(cls):
        super().skip_checks()
        if not CONF.compute_feature_enabled.live_migration:
            raise cls.skipException("[compute-feature-enabled] live_migration is false")

    @classmethod
    def resource_setup(cls):
        super().resource_setup()
        placing = [host["name"] for host in cls.hosts() if len(cls.domains_of(host["name"])) > 1]
        others = [host["name"] for host in cls.hosts()]
        if not placing:
            raise cls.skipException("no host has two last-level caches: no server gets a place")
        if len(others) < 2:
            raise cls.skipException("one host alone reports to nova-vp")
        cls.source = placing[0]
        cls.destination = next(host for host in others if host != cls.source)
        cls.steer(cls.source, "enforce")
        cls.steer(cls.destination, "observe")

    @decorators.idempotent_id("77d22993-e81c-43e7-a75d-a1a6fac9a6aa")
    @decorators.attr(type="slow")
    def test_a_place_does_not_travel(self):
        server = self.boot_on(self.source)
        self.wait_until_placed(server)
        self.migrate(server)
        told = self.wait_until_told(
            server,
            "the destination to report the server",
            lambda vp: vp["host"] == self.destination,
        )
        every = sorted(self.domains_of(self.destination))
        told = self.wait_until_told(
            server,
            "the server to be managed there, with all the CPUs that Nova gives it",
            lambda vp: (
                vp["host"] == self.destination
                and vp["unmanaged"] is None
                and sorted(vp["domains"]) == every
            ),
        )
        self.assertIn(told["cap"], base.NO_CAP)
        self.assertEqual([], told["actions"])
        self.wait_for(
            lambda: server not in self.servers_on(self.source),
            f"{self.source} to forget the server",
        )
        self.assertIn(server, self.servers_on(self.destination))

    def migrate(self, server):
        servers = self.os_project_admin.servers_client
        servers.live_migrate_server(server, host=self.destination, block_migration="auto")
        waiters.wait_for_server_status(servers, server, "ACTIVE")
        shown = servers.show_server(server)["server"]
        self.assertEqual(self.destination, shown["OS-EXT-SRV-ATTR:host"])

    def servers_on(self, host):
        return [vp["server_id"] for vp in self.operator.show_host(host)["vps"]]
