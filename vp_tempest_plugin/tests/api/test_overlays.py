# SPDX-License-Identifier: Apache-2.0
"""Overlays: made, shown, changed, deleted; which servers are in them; who may call them."""

from tempest.lib import decorators, exceptions
from tempest.lib.common.utils import data_utils

from vp_tempest_plugin.tests import base


class TestOverlays(base.BaseTest):
    credentials = ("primary", "alt", "admin", "project_reader")
    microversion = "1.3"

    @classmethod
    def setup_clients(cls):
        super().setup_clients()
        cls.reader = cls.client_of(cls.os_project_reader)
        cls.stranger = cls.client_of(cls.os_alt)

    @classmethod
    def resource_setup(cls):
        super().resource_setup()
        servers = [cls.boot(cls.os_primary) for _ in range(2)]
        cls.one, cls.other = (server["id"] for server in servers)
        cls.project = servers[0]["tenant_id"]
        for server in servers:
            cls.wait_until_told(server["id"])

    def create(self, *servers, **fields):
        name = fields.pop("name", None) or data_utils.rand_name("overlay")
        made = self.member.create_overlay(name=name, servers=list(servers), **fields)
        self.addCleanup(self.gone, made["id"])
        return made

    def gone(self, overlay_id):
        try:
            self.operator.delete_overlay(overlay_id)
        except exceptions.NotFound:
            return

    def names_of(self, client, **query):
        return {overlay["name"] for overlay in client.list_overlays(**query)["overlays"]}

    @decorators.idempotent_id("ed0a166d-5d37-4471-a5d9-8480546e5812")
    def test_what_is_made_is_shown_and_listed(self):
        made = self.create(self.one, target=250, target_unit="requests/s")
        self.assertEqual(self.project, made["project_id"])
        self.assertEqual((250, "requests/s"), (made["target"], made["target_unit"]))
        self.assertFalse(made["is_group"])
        self.assertEqual([self.one], [server["server_id"] for server in made["servers"]])
        for client in (self.member, self.reader):
            self.assertEqual(made["id"], client.show_overlay(made["id"])["id"])
            self.assertIn(made["name"], self.names_of(client))
        self.assertIn(made["name"], self.names_of(self.operator, project_id=self.project))

    @decorators.idempotent_id("7a490e06-8633-434d-bf95-887714202b92")
    def test_operators_alone_are_told_the_hosts(self):
        made = self.create(self.one)
        [told] = self.member.show_overlay(made["id"])["servers"]
        self.assertNotIn("host", told)
        [told] = self.operator.show_overlay(made["id"])["servers"]
        self.assertEqual(self.operator.show_vp(self.one)["host"], told["host"])

    @decorators.idempotent_id("1e20d6d6-872d-4e5e-bf83-e334bd3705c1")
    def test_a_change_holds(self):
        made = self.create()
        name = data_utils.rand_name("overlay")
        changed = self.member.change_overlay(made["id"], name=name, target=400)
        self.assertEqual((name, 400), (changed["name"], changed["target"]))
        self.assertEqual(400, self.member.show_overlay(made["id"])["target"])

    @decorators.idempotent_id("8b76d944-f3a4-4396-820b-d3eb235b02ee")
    def test_what_is_deleted_is_gone(self):
        made = self.create(self.one)
        told = self.member.delete_overlay(made["id"])
        self.assertEqual({"id": made["id"], "is_deleted": True}, told)
        self.refused("overlay-not-found", exceptions.NotFound, self.member.show_overlay, made["id"])
        self.assertNotIn(made["name"], self.names_of(self.member))

    @decorators.idempotent_id("c7f6cf0a-a089-44ad-817d-9d4748ab9a8b")
    def test_servers_come_and_go(self):
        made = self.create(self.one)
        told = self.member.add_overlay_servers(made["id"], self.other)
        self.assertEqual(
            {self.one, self.other}, {server["server_id"] for server in told["servers"]}
        )
        told = self.member.remove_overlay_server(made["id"], self.one)
        self.assertEqual([self.other], [server["server_id"] for server in told["servers"]])
        self.refused(
            "vp-not-found",
            exceptions.NotFound,
            self.member.remove_overlay_server,
            made["id"],
            self.one,
        )

    @decorators.idempotent_id("263f9a67-3f93-4779-988c-ad0afeb4191f")
    def test_a_name_is_of_one_overlay(self):
        made = self.create()
        self.refused(
            "name-taken", exceptions.Conflict, self.member.create_overlay, name=made["name"]
        )

    @decorators.idempotent_id("5177c58e-5999-4b70-926b-116fd139c638")
    def test_a_server_is_in_one_overlay_at_most(self):
        self.create(self.one)
        self.refused(
            "in-another-overlay",
            exceptions.Conflict,
            self.member.create_overlay,
            name=data_utils.rand_name("overlay"),
            servers=[self.one],
        )
        second = self.create()
        self.refused(
            "in-another-overlay",
            exceptions.Conflict,
            self.member.add_overlay_servers,
            second["id"],
            self.one,
        )

    @decorators.idempotent_id("b12fe2bb-8f72-4dc8-8ba4-23726014cbf9")
    def test_servers_of_somebody_else_are_like_those_that_are_not_there(self):
        for server in (self.one, base.NOBODY):
            self.refused(
                "vp-not-found",
                exceptions.NotFound,
                self.stranger.create_overlay,
                name=data_utils.rand_name("overlay"),
                servers=[server],
            )

    @decorators.idempotent_id("027b3fc0-60bb-468d-aac2-8bcecb056595")
    def test_an_overlay_of_somebody_else_is_like_one_that_is_not_there(self):
        made = self.create(self.one)
        for overlay in (made["id"], base.NOBODY):
            for ask, named in (
                (self.stranger.show_overlay, {}),
                (self.stranger.change_overlay, {"target": 1}),
                (self.stranger.delete_overlay, {}),
                (self.stranger.call_overlay, {"verb": "trigger"}),
            ):
                self.refused("overlay-not-found", exceptions.NotFound, ask, overlay, **named)
        self.assertNotIn(made["name"], self.names_of(self.stranger))

    @decorators.idempotent_id("ed471e7e-0028-484b-9fae-9f23c61ff5b1")
    def test_readers_change_and_call_nothing(self):
        made = self.create(self.one)
        for ask, named in (
            (self.reader.change_overlay, {"target": 1}),
            (self.reader.delete_overlay, {}),
            (self.reader.call_overlay, {"verb": "trigger"}),
        ):
            self.refused("forbidden", exceptions.Forbidden, ask, made["id"], **named)
        self.refused(
            "forbidden",
            exceptions.Forbidden,
            self.reader.create_overlay,
            name=data_utils.rand_name("overlay"),
        )

    @decorators.idempotent_id("3e8c59b6-b931-46c4-88af-8549b3d202ac")
    def test_operators_alone_put_an_overlay_before_others(self):
        made = self.create()
        for rank in ({"priority": 5}, {"arbitration": "round-robin"}):
            self.refused(
                "forbidden", exceptions.Forbidden, self.member.change_overlay, made["id"], **rank
            )
            told = self.operator.change_overlay(made["id"], **rank)
            self.assertLessEqual(rank.items(), told.items())

    @decorators.idempotent_id("8b175151-8ce3-4e84-8fc5-376d41598af4")
    def test_what_no_overlay_and_no_call_can_be_is_refused(self):
        for fields in ({}, {"name": ""}, {"name": "a" * 65}, {"name": "shop", "target": "much"}):
            self.refused("bad-request", exceptions.BadRequest, self.member.create_overlay, **fields)
        made = self.create(self.one)
        for call in (
            {},
            {"verb": "please"},
            {"verb": "tune"},
            {"verb": "borrow", "server_id": self.one},
            {"verb": "trigger", "lease_s": -1},
        ):
            self.refused(
                "bad-request", exceptions.BadRequest, self.member.call_overlay, made["id"], **call
            )
        self.refused(
            "vp-not-found",
            exceptions.NotFound,
            self.member.call_overlay,
            made["id"],
            verb="trigger",
            server_id=self.other,
        )
