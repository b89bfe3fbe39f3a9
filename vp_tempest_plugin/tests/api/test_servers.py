# SPDX-License-Identifier: Apache-2.0
"""A server as its tenant and as operators are told of it, and what each may order."""

import json

from tempest.lib import decorators, exceptions

from vp_tempest_plugin.tests import base

OPERATORS_ALONE = {
    "host",
    "domains",
    "cpus",
    "metrics",
    "interference",
    "proposals",
    "flavor",
    "mode",
}
NO_OVERRIDES = {"mode": None, "opt_out": False, "priority": None, "exempt": False}


class TestServers(base.BaseTest):
    credentials = ("primary", "alt", "admin", "project_reader")

    @classmethod
    def setup_clients(cls):
        super().setup_clients()
        cls.reader = cls.client_of(cls.os_project_reader)
        cls.stranger = cls.client_of(cls.os_alt)

    @classmethod
    def resource_setup(cls):
        super().resource_setup()
        cls.server = cls.boot(cls.os_primary)
        cls.server_id = cls.server["id"]
        cls.told = cls.wait_until_told(cls.server_id)

    @decorators.idempotent_id("49ac704e-52f7-4683-b6d8-172b6ec315f1")
    def test_an_operator_is_told_where_it_is(self):
        self.assertEqual(self.server["name"], self.told["name"])
        self.assertEqual(self.server["tenant_id"], self.told["project_id"])
        self.assertLessEqual(OPERATORS_ALONE, set(self.told))
        shown = self.os_admin.servers_client.show_server(self.server_id)["server"]
        self.assertEqual(shown["OS-EXT-SRV-ATTR:host"], self.told["host"])
        self.assertIn(
            self.server_id,
            [vp["server_id"] for vp in self.operator.show_host(self.told["host"])["vps"]],
        )

    @decorators.idempotent_id("2513cb40-41d0-4fb1-aee8-dd5a3a96c301")
    def test_a_tenant_is_told_of_it_without_its_host(self):
        for client in (self.member, self.reader):
            told = client.show_vp(self.server_id)
            self.assertEqual(self.server["name"], told["name"])
            self.assertEqual(set(), OPERATORS_ALONE & set(told))
            self.assertNotIn(json.dumps(self.told["host"]), json.dumps(told))

    @decorators.idempotent_id("78a04c69-7268-4122-91cc-acf0298c4046")
    def test_times_are_full_minutes_to_a_tenant(self):
        # Where all CPUs share a cache no server is given a place, and an idle one has no state.
        cells = self.operator.show_host(self.told["host"])["cells"]
        told_by = "actions" if sum(len(cell["domains"]) for cell in cells) > 1 else "since"

        def find():
            told = self.member.show_vp(self.server_id)
            if told_by == "since" and not told["since"] and self.is_idle():
                raise self.skipException("all CPUs share a cache, and the server is idle: no times")
            return told[told_by] and told

        told = self.wait_for(find, f"the server's {told_by}")
        times = [told["since"], *(one["at"] for one in told["actions"])]
        self.assertTrue(all(at is None or at.endswith(":00Z") for at in times), times)

    def is_idle(self):
        return self.operator.show_vp(self.server_id)["incomplete"] == "idle"

    @decorators.idempotent_id("d8c74d92-7856-4270-bff6-66c5dd8b45aa")
    def test_a_list_has_the_own_servers_alone(self):
        for client in (self.member, self.reader):
            listed = client.list_vps()["vps"]
            self.assertEqual([self.server_id], [vp["server_id"] for vp in listed])
            self.assertEqual(set(), OPERATORS_ALONE & set(listed[0]))
        self.assertEqual([], self.stranger.list_vps()["vps"])
        found = self.operator.list_vps(project_id=self.server["tenant_id"])["vps"]
        self.assertEqual([self.server_id], [vp["server_id"] for vp in found])

    @decorators.idempotent_id("9d4c2263-94fb-4858-b6ac-d000dabc4233")
    def test_filters_of_a_list_hold(self):
        found = self.operator.list_vps(host=self.told["host"])["vps"]
        self.assertIn(self.server_id, [vp["server_id"] for vp in found])
        self.assertEqual({self.told["host"]}, {vp["host"] for vp in found})
        found = self.member.list_vps(name=self.server["name"])["vps"]
        self.assertEqual([self.server_id], [vp["server_id"] for vp in found])
        self.assertEqual([], self.member.list_vps(name="nobody")["vps"])
        self.assertEqual([], self.member.list_vps(hurt_by_neighbour="true")["vps"])

    @decorators.idempotent_id("7621a4f8-b6d4-4be2-ac51-04173864fd98")
    def test_tenants_do_not_ask_by_host_or_project(self):
        for query in ({"host": self.told["host"]}, {"project_id": self.server["tenant_id"]}):
            self.refused("forbidden", exceptions.Forbidden, self.member.list_vps, **query)

    @decorators.idempotent_id("09f7f7a5-bfd7-4b17-9238-8496b0c45863")
    def test_a_server_of_somebody_else_is_like_one_that_is_not_there(self):
        for ask in ("show_vp", "show_vp_history", "list_vp_actions"):
            errors = [
                self.refused(
                    "vp-not-found", exceptions.NotFound, getattr(self.stranger, ask), server
                )
                for server in (self.server_id, base.NOBODY)
            ]
            details = [error["detail"] for error in errors]
            self.assertEqual(details[0].replace(self.server_id, base.NOBODY), details[1])
        self.refused(
            "vp-not-found",
            exceptions.NotFound,
            self.stranger.change_vp,
            self.server_id,
            opt_out=True,
        )

    @decorators.idempotent_id("5de02a20-122f-47f4-9baf-2bfbd19ceb14")
    def test_a_tenant_refuses_help_and_takes_it_back(self):
        self.addCleanup(self.operator.change_vp, self.server_id, opt_out=False)
        told = self.member.change_vp(self.server_id, opt_out=True)
        self.assertTrue(told["overrides"]["opt_out"])
        self.assertTrue(self.member.show_vp(self.server_id)["overrides"]["opt_out"])
        self.assertTrue(self.operator.show_vp(self.server_id)["overrides"]["opt_out"])
        told = self.member.change_vp(self.server_id, opt_out=False)
        self.assertLessEqual(NO_OVERRIDES.items(), told["overrides"].items())

    @decorators.idempotent_id("88c25a14-2d97-4dcf-a013-f0d7a70e45fc")
    def test_an_operator_orders_for_one_server(self):
        undone = {"priority": None, "mode": None, "exempt": False}
        self.addCleanup(self.operator.change_vp, self.server_id, **undone)
        told = self.operator.change_vp(self.server_id, priority=3, mode="observe", exempt=True)
        overrides = {"priority": 3, "mode": "observe", "exempt": True, "opt_out": False}
        self.assertLessEqual(overrides.items(), told["overrides"].items())
        self.assertTrue(told["overrides"]["by"])
        self.assertLessEqual(
            overrides.items(), self.operator.show_vp(self.server_id)["overrides"].items()
        )
        self.wait_until_told(
            self.server_id,
            "the host to obey the exemption",
            lambda vp: vp["unmanaged"] and vp["unmanaged"]["reason"] == "exempt",
        )

    @decorators.idempotent_id("3c46291a-caae-4656-932f-8dc2de53199d")
    def test_a_tenant_orders_nothing_at_the_cost_of_others(self):
        for order in ({"exempt": True}, {"mode": "enforce"}, {"priority": 9}):
            self.refused(
                "forbidden", exceptions.Forbidden, self.member.change_vp, self.server_id, **order
            )
        self.refused(
            "forbidden", exceptions.Forbidden, self.reader.change_vp, self.server_id, opt_out=True
        )
        self.assertLessEqual(
            NO_OVERRIDES.items(), self.operator.show_vp(self.server_id)["overrides"].items()
        )

    @decorators.idempotent_id("f0ee0a02-cfee-4f87-bede-c57cdbe20f33")
    def test_what_no_order_can_be_is_refused(self):
        for order in ({}, {"opt_out": "maybe"}, {"priority": 10}, {"mode": "brave"}, {"colour": 1}):
            self.refused(
                "bad-request",
                exceptions.BadRequest,
                self.operator.change_vp,
                self.server_id,
                **order,
            )

    @decorators.idempotent_id("bad2c6a7-5c2f-4c34-87ab-a0c9326d6033")
    def test_latency_is_reported_of_latency_critical_servers_alone(self):
        self.refused(
            "not-latency-critical",
            exceptions.Conflict,
            self.member.report_latency,
            self.server_id,
            latency_ms=8.5,
        )
        self.refused(
            "bad-request",
            exceptions.BadRequest,
            self.member.report_latency,
            self.server_id,
            latency_ms=-1,
        )
        self.refused(
            "forbidden",
            exceptions.Forbidden,
            self.operator.report_latency,
            self.server_id,
            latency_ms=8.5,
        )
