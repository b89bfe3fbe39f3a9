# SPDX-License-Identifier: Apache-2.0
"""Microversions: documents without a token, what a request gets, what came with which."""

from tempest.lib import decorators, exceptions

from vp_tempest_plugin.services.performance_isolation import HEADER, SERVICE_TYPE
from vp_tempest_plugin.tests import base

SPOKEN = ("1.0", "1.1", "1.2", "1.3", "1.4")
BROUGHT = {
    "1.1": ("list_actions", "list_escalations", "list_usage"),
    "1.3": ("list_overlays", "list_modes"),
}
"""By microversion, requests that the one before does not know."""


class TestVersions(base.BaseTest):
    def version_in(self, response):
        self.assertEqual(HEADER.lower(), response["vary"].lower())
        return response[HEADER.lower()]

    @decorators.idempotent_id("3da0f338-18ca-44ef-8227-c3cef1bacf71")
    def test_versions_are_told_without_a_token(self):
        for path in ((), ("v1",)):
            response, told = self.operator.ask_without_token(*path)
            self.assertEqual(200, response.status)
            [version] = told["versions"] if "versions" in told else [told["version"]]
            self.assertEqual("1.0", version["min_version"])
            self.assertIn(version["version"], SPOKEN)

    @decorators.idempotent_id("15871b2a-bd09-4f2a-8e02-bc7461b742c5")
    def test_the_description_names_each_operation_of_the_client(self):
        response, told = self.operator.ask_without_token("v1", "openapi.json")
        self.assertEqual(200, response.status)
        self.assertEqual("3.1", told["openapi"][:3])
        for method, path in (
            ("get", "/v1/hosts/{host}"),
            ("patch", "/v1/vps/{server_id}"),
            ("post", "/v1/actions/{action_id}/undo"),
            ("post", "/v1/overlays/{overlay_id}/calls"),
            ("post", "/v1/what-if"),
        ):
            self.assertIn(method, told["paths"][path])

    @decorators.idempotent_id("beb8a45a-7b83-463d-9bab-ea14dfe6a3de")
    def test_an_answer_names_the_version_that_it_has(self):
        for version in SPOKEN:
            answer = self.client_of(self.os_admin, version).list_hosts()
            self.assertEqual(f"{SERVICE_TYPE} {version}", self.version_in(answer.response))

    @decorators.idempotent_id("87ab63d5-0702-42b3-92b2-abdc79fc412d")
    def test_the_newest_version_goes_by_latest(self):
        answer = self.client_of(self.os_admin, "latest").list_hosts()
        _, told = self.operator.ask_without_token("v1")
        newest = told["version"]["version"]
        self.assertEqual(f"{SERVICE_TYPE} {newest}", self.version_in(answer.response))

    @decorators.idempotent_id("98a20dae-a6bd-4dfc-b187-74dadedba4f6")
    def test_who_names_no_version_gets_the_first(self):
        client = self.client_of(self.os_admin)
        client.microversion = None
        answer = client.list_hosts()
        self.assertEqual(f"{SERVICE_TYPE} 1.0", self.version_in(answer.response))
        self.assertNotIn("links", answer)
        self.assertTrue(all("mode_source" not in host for host in answer["hosts"]))

    @decorators.idempotent_id("e0db77c2-e320-4a90-a654-c6134cbf5b21")
    def test_a_version_that_is_not_spoken_is_refused_with_those_that_are(self):
        for version in ("0.9", "1.999", "2.0", "first"):
            client = self.client_of(self.os_admin, version)
            error = self.refused("version-unsupported", exceptions.NotAcceptable, client.list_hosts)
            self.assertEqual("1.0", error["min_version"])
            self.assertIn(error["max_version"], SPOKEN)

    @decorators.idempotent_id("95359f7f-e5dc-4a68-9062-014193ffcf56")
    def test_what_came_with_a_version_is_unknown_before(self):
        for version, requests in BROUGHT.items():
            before = SPOKEN[SPOKEN.index(version) - 1]
            old, new = (self.client_of(self.os_admin, one) for one in (before, version))
            for request in requests:
                self.refused("not-found", exceptions.NotFound, getattr(old, request))
                getattr(new, request)()

    @decorators.idempotent_id("411720ef-6bfa-470f-b7a1-7d307ed36344")
    def test_parameters_came_with_versions_too(self):
        old = self.client_of(self.os_admin, "1.0")
        self.refused("bad-request", exceptions.BadRequest, old.list_hosts, limit=1)
        old = self.client_of(self.os_admin, "1.2")
        self.refused("bad-request", exceptions.BadRequest, old.list_hosts, heat="true")
        old = self.client_of(self.os_admin, "1.3")
        self.refused("bad-request", exceptions.BadRequest, old.list_vps, sort="degradation")
