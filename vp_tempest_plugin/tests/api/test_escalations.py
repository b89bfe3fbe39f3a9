# SPDX-License-Identifier: Apache-2.0
"""What agents asked the cluster for."""

from tempest.lib import decorators, exceptions
from tempest.lib.common.utils import data_utils

from vp_tempest_plugin.tests import base

TOLD = {"id", "host", "status", "reason", "victim", "kind", "received_at"}


class TestEscalations(base.BaseTest):
    microversion = "1.1"

    @decorators.idempotent_id("7841d649-424a-43fa-86da-03ecca7ee254")
    def test_a_list_says_of_each_how_far_it_is(self):
        told = self.operator.list_escalations(limit=10)["escalations"]
        for one in told:
            self.assertLessEqual(TOLD, set(one))
            shown = self.operator.show_escalation(one["id"])
            self.assertEqual(one["victim"], shown["victim"])
            self.assertIn("candidates", shown)
        times = [one["received_at"] for one in told]
        self.assertEqual(sorted(times, reverse=True), times)

    @decorators.idempotent_id("189f37cd-11e0-48c0-a6db-00e6ccc080fc")
    def test_filters_hold(self):
        host = data_utils.rand_name("host")
        self.assertEqual([], self.operator.list_escalations(host=host)["escalations"])
        told = self.operator.list_escalations(status="received")["escalations"]
        self.assertLessEqual({one["status"] for one in told}, {"received"})

    @decorators.idempotent_id("12dde505-74cc-4c6d-bea5-6bd39cbf968f")
    def test_one_that_is_not_stored(self):
        for ask in (self.operator.show_escalation, self.operator.accept_escalation):
            self.refused("escalation-not-found", exceptions.NotFound, ask, base.NOBODY)

    @decorators.idempotent_id("aa332bfd-8ed0-4f13-826c-6c7d9cd52745")
    def test_what_no_query_can_mean_is_refused(self):
        for query in ({"status": "brave"}, {"sort": "host"}, {"marker": "nobody"}):
            self.refused(
                "bad-request", exceptions.BadRequest, self.operator.list_escalations, **query
            )
