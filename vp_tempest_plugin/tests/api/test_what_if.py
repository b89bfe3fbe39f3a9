# SPDX-License-Identifier: Apache-2.0
"""What a server would lose on each host."""

from tempest.lib import decorators, exceptions

from vp_tempest_plugin.tests import base

STRICT = {"vp:isolation": "strict", "vp:expects": "cache"}
REASONS = {"fits", "strict-loss-too-large", "unknown", "runs-here"}


class TestWhatIf(base.BaseTest):
    microversion = "1.3"

    @decorators.idempotent_id("deb048aa-b23c-4b19-8cdd-e2fad978920b")
    def test_a_flavor_is_judged_for_each_host(self):
        told = self.operator.ask_what_if(flavor={"vcpus": 1, "extra_specs": STRICT})
        hosts = [host["name"] for host in self.operator.list_hosts()["hosts"]]
        self.assertEqual(hosts, sorted(host["host"] for host in told["hosts"]))
        newcomer = told["newcomer"]
        self.assertEqual(
            ("strict", "flavor", 1),
            tuple(newcomer[key] for key in ("isolation", "source", "vcpus")),
        )
        self.assertEqual(1, newcomer["state"]["number"])
        limit_ratio = newcomer["strict_max_hurt_ratio"]
        for host in told["hosts"]:
            self.assertIn(host["reason"], REASONS)
            if host["strict_ratio"] is not None:
                self.assertEqual(host["strict_ratio"] <= limit_ratio, host["is_accepted"])

    @decorators.idempotent_id("bed6cd35-355a-40f2-b763-2e2ed694100d")
    def test_who_does_not_ask_for_isolation_is_accepted_everywhere(self):
        told = self.operator.ask_what_if(flavor={"vcpus": 1})
        self.assertEqual("none", told["newcomer"]["isolation"])
        self.assertTrue(told["hosts"])
        self.assertTrue(all(host["is_accepted"] for host in told["hosts"]))

    @decorators.idempotent_id("7565e9b3-41c6-4578-a670-d662fc01d4b9")
    def test_a_server_runs_where_it_runs(self):
        server = self.boot(self.os_admin)
        host = self.wait_until_told(server["id"])["host"]
        told = self.operator.ask_what_if(server_id=server["id"])
        [here] = [one for one in told["hosts"] if one["host"] == host]
        self.assertEqual(("runs-here", True), (here["reason"], here["is_accepted"]))

    @decorators.idempotent_id("6e671800-0b8f-41b7-9e5f-c06ec6b963da")
    def test_what_nobody_can_ask_is_refused(self):
        flavor = {"vcpus": 1}
        for asked in (
            {},
            {"flavor": {}},
            {"flavor": {"vcpus": 0}},
            {"flavor": flavor, "server_id": base.NOBODY},
            {"flavor": {**flavor, "extra_specs": {"vp:isolation": "brave"}}},
        ):
            self.refused("bad-request", exceptions.BadRequest, self.operator.ask_what_if, **asked)
        self.refused(
            "vp-not-found", exceptions.NotFound, self.operator.ask_what_if, server_id=base.NOBODY
        )

    @decorators.idempotent_id("15b41509-b974-4597-bc7a-904745f6cacf")
    def test_tenants_do_not_ask(self):
        self.refused(
            "forbidden", exceptions.Forbidden, self.member.ask_what_if, flavor={"vcpus": 1}
        )
