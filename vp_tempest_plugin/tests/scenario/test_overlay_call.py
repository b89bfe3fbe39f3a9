# SPDX-License-Identifier: Apache-2.0
"""An application coordinates its own servers: it registers an overlay and calls it."""

from tempest.lib import decorators
from tempest.lib.common.utils import data_utils

from vp_tempest_plugin.tests.scenario import base


@decorators.serial
class TestOverlayCall(base.ScenarioTest):
    @classmethod
    def resource_setup(cls):
        super().resource_setup()
        cls.host = cls.hosts()[0]["name"]
        cls.steer(cls.host, "enforce")
        managed = cls.make_flavor(specs={"vp:manage": "yes"})
        cls.servers = [cls.boot_on(cls.host, flavor=managed) for _ in range(2)]
        made = cls.member.create_overlay(name=data_utils.rand_name("overlay"), servers=cls.servers)
        cls.overlay = made["id"]
        cls.addClassResourceCleanup(cls.operator.delete_overlay, cls.overlay)

    def call(self, **asked):
        """The answer of the host; a skip where the controller of overlays is not enabled."""
        told = self.member.call_overlay(self.overlay, **asked)
        if "disabled" in [answer["nack"] for answer in told["answers"]]:
            raise self.skipException(f"{self.host} does not run the controller overlays")
        return told

    def granted(self, **asked):
        """A new overlay is known to its host within seconds."""
        return self.wait_for(
            lambda: (told := self.call(**asked))["granted"] and told, f"a grant of {asked}"
        )

    @decorators.idempotent_id("29b31349-b825-437a-849d-a7fee3e9247a")
    @decorators.attr(type="slow")
    def test_a_call_is_granted_and_held_until_it_is_released(self):
        told = self.granted(verb="trigger", lease_s=1)
        self.assertEqual(self.overlay, told["overlay_id"])
        [answer] = told["answers"]
        self.assertEqual(sorted(self.servers), sorted(answer["server_ids"]))
        self.assertIsNone(answer["nack"])
        holds = self.wait_for(
            lambda: self.member.show_overlay(self.overlay)["holds"], "the host to say what it holds"
        )
        self.assertGreaterEqual(holds["granted"], 1)

        self.granted(verb="tune", direction="up", server_id=self.servers[0])
        released = self.granted(verb="release")
        self.assertEqual("release", released["verb"])
        told = self.call(verb="release")
        self.assertFalse(told["granted"])
        self.assertEqual(["nothing-to-release"], [one["nack"] for one in told["answers"]])

    @decorators.idempotent_id("930beb90-bafe-455f-82ce-37c4813fbb73")
    @decorators.attr(type="slow")
    def test_a_call_that_is_repeated_is_carried_out_once(self):
        asked = {"verb": "tune", "direction": "up", "server_id": self.servers[1]}
        told = self.granted(**asked)
        again = self.call(**asked, id=told["id"])
        self.assertEqual(told["answers"], again["answers"])
