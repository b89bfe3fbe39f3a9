# SPDX-License-Identifier: Apache-2.0
"""A neighbour turns hostile: it is seen, shown to whom it concerns, and mitigated."""

import json

from tempest.lib import decorators

from vp_tempest_plugin.tests.scenario import base


@decorators.serial
class TestMitigation(base.InterferenceTest):
    @decorators.idempotent_id("b9300f02-1dcd-4af5-a348-39988003b675")
    @decorators.attr(type="slow")
    def test_detect_and_mitigate(self):
        self.set_mode(self.host, "observe")
        hurt = self.let_loose()
        suspects = [one["server_id"] for one in hurt["interference"]["suspects"]]
        self.assertIn(self.neighbour, suspects)
        told = self.member.show_vp(self.victim)
        self.assertTrue(told["hurt_by_neighbour"])
        self.assertGreater(told["degradation"]["percent"], 0)
        self.tells_nobody(told, hurt)
        self.never(self.help_for_victim, "nothing is done on a host that only observes")

        self.set_mode(self.host, "enforce")
        action = self.mended()
        self.assertIn(action["server"]["server_id"], (self.victim, self.neighbour))
        self.assertTrue(action["reason"] and action["meaning"] and action["evidence"])
        told = self.member.show_vp(self.victim)
        self.assertIn("mended", [one["result"] for one in told["actions"]])
        self.tells_nobody(told, hurt)

    def tells_nobody(self, told, hurt):
        """A tenant is told of no neighbour, no host and no raw counter."""
        text = json.dumps(told)
        neighbour = self.operator.show_vp(self.neighbour)
        for word in (self.neighbour, neighbour["name"], neighbour["project_id"], hurt["host"]):
            self.assertNotIn(json.dumps(word)[1:-1], text)
