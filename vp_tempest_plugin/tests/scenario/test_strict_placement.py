# SPDX-License-Identifier: Apache-2.0
"""A server that asks for strict isolation is not placed where it would lose much."""

from tempest import config
from tempest.lib import decorators

from vp_tempest_plugin.tests.scenario import base

CONF = config.CONF
STRICT = {"vp:isolation": "strict", "vp:expects": "cache"}


@decorators.serial
class TestStrictPlacement(base.ScenarioTest):
    @classmethod
    def resource_setup(cls):
        super().resource_setup()
        cls.need_user_data("streaming_user_data")
        cls.hostile = cls.host_with_counters()
        cls.steer(cls.hostile, "enforce")
        for _ in cls.domains_of(cls.hostile):
            cls.boot_on(cls.hostile, user_data=CONF.performance_isolation.streaming_user_data)
        cls.strict = cls.make_flavor(specs=STRICT)

    @decorators.idempotent_id("8c1186bd-506a-4b95-aac3-2b309e61769f")
    @decorators.attr(type="slow")
    def test_strict_avoids_a_hostile_host_and_soft_does_not_have_to(self):
        told = self.wait_for(
            self.refusal,
            f"{self.hostile} to be refused for strict servers",
            CONF.performance_isolation.reaction_timeout,
        )
        self.assertGreater(told[self.hostile]["strict_ratio"], 0.05)
        refused = self.boot(self.os_admin, self.strict, status="ERROR", host=self.hostile)
        self.assertIn("No valid host", refused["fault"]["message"])
        soft = self.make_flavor(specs={"vp:isolation": "soft"})
        placed = self.boot(self.os_admin, soft, host=self.hostile)
        self.assertEqual(self.hostile, placed["OS-EXT-SRV-ATTR:host"])

    @decorators.idempotent_id("ec233a65-8a68-4dac-924b-14e419b1fbc7")
    @decorators.attr(type="slow")
    def test_strict_goes_where_what_if_says(self):
        told = self.wait_for(
            self.refusal,
            f"{self.hostile} to be refused for strict servers",
            CONF.performance_isolation.reaction_timeout,
        )
        accepted = {name for name, host in told.items() if host["is_accepted"]}
        if not accepted:
            raise self.skipException("no other host accepts strict servers")
        placed = self.boot(self.os_admin, self.strict)
        self.assertIn(placed["OS-EXT-SRV-ATTR:host"], accepted)

    def refusal(self):
        """What is said of each host once the hostile one is refused."""
        told = self.operator.ask_what_if(flavor={"vcpus": 1, "extra_specs": STRICT})
        hosts = {host["host"]: host for host in told["hosts"]}
        return None if hosts[self.hostile]["is_accepted"] else hosts
