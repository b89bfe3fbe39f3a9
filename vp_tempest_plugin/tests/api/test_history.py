# SPDX-License-Identifier: Apache-2.0
"""What a server did, minute by minute, and what was done to it."""

from tempest.lib import decorators, exceptions

from vp_tempest_plugin.tests import base

TENANTS = {"at", "state", "hurt_by_neighbour", "metrics", "degradation_percent", "waiting_ratio"}
TENANTS_ACTION = {"at", "what", "result"}


class TestHistory(base.BaseTest):
    credentials = ("primary", "alt", "admin")

    @classmethod
    def resource_setup(cls):
        super().resource_setup()
        cls.server = cls.boot(cls.os_primary)
        cls.server_id = cls.server["id"]
        cls.minutes = cls.wait_for(cls.told, "a minute of the server to be stored", 240)
        cls.stranger = cls.client_of(cls.os_alt)

    @classmethod
    def told(cls):
        try:
            return cls.operator.show_vp_history(cls.server_id)["history"]
        except exceptions.NotFound:
            return None

    @decorators.idempotent_id("38704b08-23dd-4bb9-a4e4-456169bb9adc")
    def test_an_operator_is_told_the_host_of_each_minute(self):
        host = self.operator.show_vp(self.server_id)["host"]
        self.assertEqual({host}, {minute["host"] for minute in self.minutes})
        [found] = {
            vp["project_id"]
            for minute in self.operator.show_host_history(host)["history"]
            for vp in minute["vps"]
            if vp["server_id"] == self.server_id
        }
        self.assertEqual(self.server["tenant_id"], found)

    @decorators.idempotent_id("a1e15581-4f5b-4818-b05d-a217112c6064")
    def test_a_tenant_is_told_of_its_own_server_and_nothing_else(self):
        told = self.member.show_vp_history(self.server_id)["history"]
        self.assertTrue(told)
        for minute in told:
            self.assertEqual(TENANTS, set(minute))
            self.assertEqual(":00Z", minute["at"][-4:])
        self.refused(
            "vp-not-found", exceptions.NotFound, self.stranger.show_vp_history, self.server_id
        )

    @decorators.idempotent_id("aea0b032-1b4f-4e3b-9ea3-d9f83a999525")
    def test_a_span_without_the_server_is_empty(self):
        told = self.member.show_vp_history(
            self.server_id, begin="2001-01-01T00:00:00Z", end="2001-01-01T01:00:00Z"
        )
        self.assertEqual([], told["history"])

    @decorators.idempotent_id("a31430d5-868e-4a51-81eb-e9909a1610bc")
    def test_pages_are_so_many_minutes_long(self):
        page = self.member.show_vp_history(self.server_id, limit=1)
        self.assertLessEqual(len(page["history"]), 1)
        self.assertEqual(["next"], [link["rel"] for link in page["links"]])

    @decorators.idempotent_id("b6914c62-5e96-4541-bd35-cd83bdf3aa92")
    def test_what_no_span_can_be_is_refused(self):
        begin, end = "2026-01-02T00:00:00Z", "2026-01-01T00:00:00Z"
        for query in ({"begin": begin, "end": end}, {"every": 7}, {"begin": "yesterday"}):
            self.refused(
                "bad-request",
                exceptions.BadRequest,
                self.member.show_vp_history,
                self.server_id,
                **query,
            )

    @decorators.idempotent_id("66aede10-5484-493e-a7fb-616a15e62fdb")
    def test_actions_of_a_server_name_nobody_to_its_tenant(self):
        for one in self.operator.list_vp_actions(self.server_id)["actions"]:
            changed = [change["server"] for change in one["changes"]]
            concerned = [one["server"], one["victim"], one["on_behalf_of"], *changed]
            self.assertIn(self.server_id, {server["server_id"] for server in concerned if server})
        for one in self.member.list_vp_actions(self.server_id)["actions"]:
            self.assertEqual(TENANTS_ACTION, set(one))
