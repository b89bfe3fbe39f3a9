# SPDX-License-Identifier: Apache-2.0
"""How well the service is, what is in force, what was learned of flavors."""

from tempest.lib import decorators, exceptions

from vp_tempest_plugin.tests import base


class TestService(base.BaseTest):
    microversion = "1.1"

    @decorators.idempotent_id("e97fa5ba-c2bc-4879-9d72-1eda9ddf87f7")
    def test_policies_say_which_rules_and_options_are_in_force(self):
        told = self.operator.ask("GET", "v1", "policies")["policies"]
        rules = {rule["name"]: rule for rule in told["rules"]}
        self.assertIn("role:admin", rules["nova_vp:hosts:set_mode"]["check"])
        self.assertTrue(told["options"])

    @decorators.idempotent_id("435a4f9e-c0b2-456e-b6c2-77403a36de3e")
    def test_the_service_says_how_it_is(self):
        told = self.operator.ask("GET", "v1", "health")["health"]
        self.assertIn(told["status"], ("pass", "warn"))
        checks = {"bus:connection", "database:connection", "hosts:reports"}
        self.assertEqual(checks, set(told["checks"]))
        self.assertEqual("pass", told["checks"]["database:connection"]["status"])

    @decorators.idempotent_id("d5e93f51-9882-4d23-9393-a952f5966e61")
    def test_profiles_are_listed_and_shown(self):
        for profile in self.operator.ask("GET", "v1", "profiles", limit=5)["profiles"]:
            shown = self.operator.ask("GET", "v1", "profiles", profile["id"])["profile"]
            self.assertEqual(profile["flavor"], shown["flavor"])
        self.refused(
            "profile-not-found",
            exceptions.NotFound,
            self.operator.ask,
            "GET",
            "v1",
            "profiles",
            "AG5v",
        )
