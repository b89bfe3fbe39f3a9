# SPDX-License-Identifier: Apache-2.0
"""A tenant refuses help for a server: its harm is seen, and nothing is done for its sake."""

from tempest import config
from tempest.lib import decorators

from vp_tempest_plugin.tests.scenario import base

CONF = config.CONF


@decorators.serial
class TestOptOut(base.InterferenceTest):
    @decorators.idempotent_id("786eccf2-1462-4ab7-93b1-354cf8a7eb90")
    @decorators.attr(type="slow")
    def test_help_is_refused_and_asked_for_again(self):
        self.addCleanup(self.operator.change_vp, self.victim, opt_out=False)
        told = self.member.change_vp(self.victim, opt_out=True)
        self.assertTrue(told["is_told"])
        self.let_loose()
        self.never(self.help_for_victim, "nothing is done for the sake of who opted out")
        self.assertTrue(self.member.show_vp(self.victim)["overrides"]["opt_out"])

        self.member.change_vp(self.victim, opt_out=False)
        self.mended()
