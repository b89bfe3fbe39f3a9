# SPDX-License-Identifier: Apache-2.0
"""What servers with a pollution permit are billed for."""

from tempest.lib import decorators, exceptions

from vp_tempest_plugin.tests import base

OPERATORS_ALONE = {"hosts", "sure_misses", "attributed_misses"}


class TestUsage(base.BaseTest):
    microversion = "1.1"

    @decorators.idempotent_id("5e3b2212-dcb5-4923-9b09-f4a17d43594a")
    def test_a_project_is_told_its_own(self):
        own = self.os_primary.credentials.project_id
        for query in ({}, {"project_id": own}):
            told = self.member.list_usage(**query)["usage"]
            self.assertLessEqual({one["project_id"] for one in told}, {own})
            self.assertFalse(any(OPERATORS_ALONE & set(one) for one in told))

    @decorators.idempotent_id("f3116bdb-9fa9-43cb-839b-285168b367fa")
    def test_a_project_does_not_ask_for_that_of_another(self):
        other = self.os_admin.credentials.project_id
        self.refused("forbidden", exceptions.Forbidden, self.member.list_usage, project_id=other)

    @decorators.idempotent_id("c38d18a9-24f5-4ba0-8aa7-546d9e1d3b05")
    def test_an_operator_is_told_where_it_was(self):
        for one in self.operator.list_usage(limit=10)["usage"]:
            self.assertLessEqual(OPERATORS_ALONE, set(one))
        self.assertEqual([], self.operator.list_usage(server_id=base.NOBODY)["usage"])

    @decorators.idempotent_id("0f78130f-d78d-4d9a-89e6-ab9a4bece87f")
    def test_what_no_query_can_mean_is_refused(self):
        for query in ({"start": "yesterday"}, {"sort": "over_s"}, {"marker": "nobody"}):
            self.refused("bad-request", exceptions.BadRequest, self.operator.list_usage, **query)
