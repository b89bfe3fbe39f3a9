# SPDX-License-Identifier: Apache-2.0
"""Who may ask what: each persona of keystone, each operation that is not for tenants."""

from typing import Any

from tempest.lib import decorators, exceptions

from vp_tempest_plugin.tests import base

READ = {
    "hosts": ("v1", "hosts"),
    "modes": ("v1", "modes"),
    "actions": ("v1", "actions"),
    "escalations": ("v1", "escalations"),
    "profiles": ("v1", "profiles"),
    "policies": ("v1", "policies"),
    "health": ("v1", "health"),
}
"""For operators and services."""
CHANGES: Any = (
    ("PATCH", ("v1", "hosts", "nobody"), {"mode": "observe"}),
    ("PUT", ("v1", "modes", "cloud"), {"mode": "brave"}),
    ("PUT", ("v1", "modes", "aggregates"), {"aggregate": "nobody", "mode": "brave"}),
    ("POST", ("v1", "actions", base.NOBODY, "accept"), {}),
    ("POST", ("v1", "actions", base.NOBODY, "reject"), {}),
    ("POST", ("v1", "actions", base.NOBODY, "undo"), {}),
    ("POST", ("v1", "escalations", base.NOBODY, "accept"), {}),
    ("POST", ("v1", "what-if"), {"flavor": {}}),
)
"""For administrators. None of them would change anything."""
OPEN = (("v1", "vps"), ("v1", "overlays"), ("v1", "usage"))
"""For everybody in a project."""


class TestPersonas(base.BaseTest):
    credentials = (
        "primary",
        "admin",
        "project_reader",
        "project_manager",
        "project_admin",
        ["service_user", "service"],
    )

    @classmethod
    def setup_clients(cls):
        super().setup_clients()
        cls.tenants = [
            cls.member,
            cls.client_of(cls.os_project_reader),
            cls.client_of(cls.os_project_manager),
        ]
        cls.service = cls.client_of(cls.os_service_user)
        cls.admins = [cls.operator, cls.client_of(cls.os_project_admin)]

    @decorators.idempotent_id("3d8b6591-583d-4af9-a266-981f840b4824")
    def test_what_operators_see_tenants_do_not(self):
        for path in READ.values():
            for client in self.tenants:
                self.refused("forbidden", exceptions.Forbidden, client.ask, "GET", *path)

    @decorators.idempotent_id("e69ce34f-b8f4-4107-9e8a-304017f4bdee")
    def test_operators_and_services_see_everything(self):
        for name, path in READ.items():
            for client in (*self.admins, self.service):
                self.assertIn(name, client.ask("GET", *path))

    @decorators.idempotent_id("efe016ea-f95c-4433-9edf-1a5ba8dcf9f6")
    def test_administrators_alone_change_what_is_of_the_cloud(self):
        for method, path, body in CHANGES:
            for client in (*self.tenants, self.service):
                self.refused(
                    "forbidden", exceptions.Forbidden, client.ask, method, *path, body=body
                )
            for client in self.admins:
                self.assertRaises(
                    (exceptions.NotFound, exceptions.BadRequest),
                    client.ask,
                    method,
                    *path,
                    body=body,
                )

    @decorators.idempotent_id("cbc3bf77-096d-4f61-a200-3b1306db74d8")
    def test_everybody_in_a_project_lists_what_is_its_own(self):
        for path in OPEN:
            for client in (*self.tenants, *self.admins, self.service):
                client.ask("GET", *path)

    @decorators.idempotent_id("3a783af0-a02c-4522-9755-a1460856d076")
    def test_without_a_token_nothing_is_told(self):
        for path in (*READ.values(), *OPEN, ("v1", "vps", base.NOBODY)):
            response, told = self.operator.ask_without_token(*path)
            self.assertEqual(401, response.status)
            [error] = told["errors"]
            self.assertEqual("performance-isolation.unauthenticated", error["code"])


class TestRequests(base.BaseTest):
    """What is wrong with a request, whatever it asks for."""

    @decorators.idempotent_id("438d9431-a0d3-48a2-824f-4b1f1dd12077")
    def test_what_does_not_exist(self):
        for path in (("v1", "nothing"), ("v2", "hosts"), ("v1", "hosts", "a", "b", "c")):
            self.refused("not-found", exceptions.NotFound, self.operator.ask, "GET", *path)

    @decorators.idempotent_id("d45540ed-db36-4c1e-bd20-46e1ea22228d")
    def test_a_method_that_a_resource_does_not_have(self):
        raised = self.assertRaises(
            exceptions.UnexpectedResponseCode, self.operator.ask, "DELETE", "v1", "hosts"
        )
        self.assertEqual(405, raised.resp.status)
        self.assertEqual("GET", raised.resp["allow"])

    @decorators.idempotent_id("d3fed605-069d-4832-a868-173870e4cd0f")
    def test_an_error_links_to_its_entry_in_the_description(self):
        error = self.refused("vp-not-found", exceptions.NotFound, self.member.show_vp, base.NOBODY)
        [link] = error["links"]
        self.assertEqual("help", link["rel"])
        _, document = self.operator.ask_without_token("v1", "openapi.json")
        entry = document["x-openstack-errors"][link["href"].rpartition("/")[2]]
        self.assertEqual(404, entry["status"])

    @decorators.idempotent_id("5ee588b1-9f7e-45ac-9dab-51fd40980564")
    def test_a_body_that_is_no_json_is_refused(self):
        raised = self.assertRaises(
            exceptions.BadRequest, self.operator.patch, "v1/hosts/nobody", body="{"
        )
        [error] = raised.resp_body
        self.assertEqual("performance-isolation.bad-request", error["code"])
