# SPDX-License-Identifier: Apache-2.0
"""Actions of all agents, and commands that name one."""

from tempest.lib import decorators, exceptions
from tempest.lib.common.utils import data_utils

from vp_tempest_plugin.tests import base

TOLD = {"id", "host", "at", "server", "reason", "meaning", "result", "changes", "rejected"}


class TestActions(base.BaseTest):
    @decorators.idempotent_id("749751b2-9b87-4f99-a6f4-b1b8d9e9b625")
    def test_a_list_says_of_each_what_it_was(self):
        told = self.operator.list_actions(limit=10)["actions"]
        self.assertLessEqual(len(told), 10)
        for action in told:
            self.assertLessEqual(TOLD, set(action))
        times = [action["at"] for action in told]
        self.assertEqual(sorted(times, reverse=True), times)

    @decorators.idempotent_id("2526f819-31f9-46b0-9a8c-14d9339dfd0e")
    def test_filters_hold(self):
        self.assertEqual([], self.operator.list_actions(server_id=base.NOBODY)["actions"])
        self.assertEqual([], self.operator.list_actions(host=data_utils.rand_name())["actions"])
        told = self.operator.list_actions(result="applied")["actions"]
        self.assertLessEqual({action["result"] for action in told}, {"applied"})
        end = "2001-01-01T00:00:00Z"
        self.assertEqual([], self.operator.list_actions(end=end)["actions"])

    @decorators.idempotent_id("92ef2fbc-bc64-475e-84f2-edf39a23d453")
    def test_one_that_is_listed_is_shown(self):
        for action in self.operator.list_actions(limit=1)["actions"]:
            shown = self.operator.show_action(action["id"])
            self.assertEqual(action["id"], shown["id"])
            self.assertEqual(action["server"], shown["server"])

    @decorators.idempotent_id("ce5e5918-ebac-44c6-9f26-6bf39715b213")
    def test_one_that_is_not_stored(self):
        self.refused(
            "action-not-found", exceptions.NotFound, self.operator.show_action, base.NOBODY
        )
        for verb in ("accept", "reject", "undo"):
            self.refused(
                "action-not-found",
                exceptions.NotFound,
                self.operator.order_action,
                base.NOBODY,
                verb,
            )

    @decorators.idempotent_id("e839e8ff-dcec-4467-b680-e64e740d751a")
    def test_what_no_query_can_mean_is_refused(self):
        for query in ({"begin": "yesterday"}, {"limit": 1001}, {"sort": "host"}, {"colour": 1}):
            self.refused("bad-request", exceptions.BadRequest, self.operator.list_actions, **query)
