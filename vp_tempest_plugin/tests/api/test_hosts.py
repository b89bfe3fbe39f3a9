# SPDX-License-Identifier: Apache-2.0
"""Hosts: as a list, one of them, what it did, its mode; modes of host aggregates."""

from tempest.lib import decorators, exceptions
from tempest.lib.common.utils import data_utils

from vp_tempest_plugin.tests import base

MODES = ("observe", "advise", "enforce")
SUMMARY = {"name", "mode", "mode_source", "counters", "vps_count", "hurt_count"}


class TestHosts(base.BaseTest):
    @classmethod
    def resource_setup(cls):
        super().resource_setup()
        cls.hosts = cls.wait_for(
            lambda: cls.operator.list_hosts(is_stale="false")["hosts"], "a host that reports"
        )
        cls.host = cls.hosts[0]["name"]

    @decorators.idempotent_id("c2b568f9-ea92-442e-bd43-4f72453f377c")
    def test_a_list_says_of_each_host_how_it_is(self):
        for host in self.hosts:
            self.assertLessEqual(SUMMARY | {"reported_at", "age_s", "is_stale"}, set(host))
            self.assertIn(host["mode"], MODES)
            self.assertIn("source", host["counters"])
            self.assertFalse(host["is_stale"])
        names = [host["name"] for host in self.hosts]
        self.assertEqual(sorted(names), names)

    @decorators.idempotent_id("bdf2f134-985e-4f34-9023-ca0b1b60048f")
    def test_hosts_are_those_of_nova(self):
        services = self.os_admin.services_client.list_services(binary="nova-compute")["services"]
        self.assertLessEqual(
            {host["name"] for host in self.hosts}, {service["host"] for service in services}
        )

    @decorators.idempotent_id("4c809dcc-edf4-4543-8ed3-5a7ac473cea3")
    def test_a_filter_and_a_sort_hold(self):
        of_any_mode = []
        for mode in MODES:
            found = self.operator.list_hosts(mode=mode)["hosts"]
            self.assertTrue(all(host["mode"] == mode for host in found))
            of_any_mode += [host["name"] for host in found]
        whole = [host["name"] for host in self.operator.list_hosts()["hosts"]]
        self.assertEqual(sorted(whole), sorted(of_any_mode))
        found = self.operator.list_hosts(sort="name:desc")["hosts"]
        names = [host["name"] for host in found]
        self.assertEqual(sorted(names, reverse=True), names)

    @decorators.idempotent_id("7a9e28eb-8e8d-4dba-9580-278ffc89e6af")
    def test_pages_have_each_host_once(self):
        whole = [host["name"] for host in self.operator.list_hosts()["hosts"]]
        told, marker = [], {}
        while True:
            page = self.operator.list_hosts(limit=1, **marker)["hosts"]
            if not page:
                break
            self.assertEqual(1, len(page))
            told.append(page[0]["name"])
            self.assertLessEqual(len(told), len(whole))
            marker = {"marker": told[-1]}
        self.assertEqual(whole, told)

    @decorators.idempotent_id("0ed8604b-1333-4f85-a29f-9c60d3aba8db")
    def test_the_first_page_links_to_the_next_if_there_is_one(self):
        page = self.operator.list_hosts(limit=1)
        whole = self.operator.list_hosts()
        is_more = len(whole["hosts"]) > 1
        self.assertEqual(["next"] if is_more else [], [link["rel"] for link in page["links"]])
        self.assertEqual([], whole["links"])

    @decorators.idempotent_id("8682cfc8-3b85-41c1-94dc-3706f3b87f69")
    def test_one_host_is_told_with_its_caches_and_its_servers(self):
        told = self.operator.show_host(self.host)
        self.assertEqual(self.host, told["name"])
        self.assertLessEqual(SUMMARY, set(told))
        domains = [domain for cell in told["cells"] for domain in cell["domains"]]
        self.assertTrue(domains)
        self.assertTrue(all(domain["cpus"] for domain in domains))
        self.assertTrue(all(vp["host"] == self.host for vp in told["vps"]))

    @decorators.idempotent_id("2aac7c27-58d4-4b4c-846c-31b7bb46b15a")
    def test_the_heat_of_hosts_is_told_where_asked_for(self):
        [told] = [
            h for h in self.operator.list_hosts(heat="true")["hosts"] if h["name"] == self.host
        ]
        self.assertTrue(told["domains"])
        self.assertLessEqual(
            {"id", "cpus", "servers_count", "worst_ratio"}, set(told["domains"][0])
        )
        self.assertTrue(all("domains" not in host for host in self.operator.list_hosts()["hosts"]))

    @decorators.idempotent_id("75feb91a-254d-4a3a-97da-80e25030ba85")
    def test_a_history_has_minutes_of_the_host(self):
        # A page of the last hour: the first minutes of it are empty on a cloud that is younger.
        told = self.wait_for(
            lambda: self.operator.show_host_history(self.host)["history"],
            "a minute of the host to be stored",
            240,
        )
        for minute in told:
            self.assertLessEqual({"at", "mode", "hurt_count", "vps"}, set(minute))
        page = self.operator.show_host_history(self.host, limit=5)["history"]
        self.assertLessEqual(len(page), 5)

    @decorators.idempotent_id("cf736a31-8911-44b8-ab96-dafad94789a9")
    def test_a_host_that_is_not_known(self):
        name = data_utils.rand_name("host")
        for ask in (self.operator.show_host, self.operator.show_host_history):
            error = self.refused("host-not-found", exceptions.NotFound, ask, name)
            self.assertIn(name, error["detail"])
        self.refused(
            "host-not-found", exceptions.NotFound, self.operator.set_host_mode, name, "observe"
        )

    @decorators.idempotent_id("d2d00d47-3b41-498b-8515-76a21d750301")
    def test_what_no_query_can_mean_is_refused(self):
        for query in ({"mode": "brave"}, {"limit": 0}, {"sort": "colour"}, {"colour": "red"}):
            self.refused("bad-request", exceptions.BadRequest, self.operator.list_hosts, **query)
        self.refused(
            "bad-request", exceptions.BadRequest, self.operator.list_hosts, marker="nobody"
        )

    @decorators.idempotent_id("b91d6d6f-25f5-4621-a465-d75233533f4b")
    def test_what_no_mode_can_be_is_refused(self):
        for mode in ("brave", "", 1):
            self.refused(
                "bad-request",
                exceptions.BadRequest,
                self.operator.set_host_mode,
                self.host,
                mode,
            )
        old = self.client_of(self.os_admin, "1.2")
        self.refused("bad-request", exceptions.BadRequest, old.set_host_mode, self.host, None)


class TestAggregateModes(base.BaseTest):
    @decorators.idempotent_id("0402c58f-fc73-4394-bd2d-cb170516c34e")
    def test_the_mode_of_an_aggregate_is_set_listed_and_unset(self):
        """`enforce` is the loosest: whoever takes himself to be in the aggregate does no less."""
        name = data_utils.rand_name("aggregate")
        self.addCleanup(self.operator.set_aggregate_mode, name, None)
        told = self.operator.set_aggregate_mode(name, "enforce")
        self.assertEqual({"level": "aggregate", "name": name, "mode": "enforce"}, told)
        [listed] = self.of_name(name)
        self.assertEqual(("aggregate", "enforce"), (listed["level"], listed["mode"]))
        self.assertIsNone(self.operator.set_aggregate_mode(name, None)["mode"])
        self.assertEqual([], self.of_name(name))

    def of_name(self, name):
        return [mode for mode in self.operator.list_modes()["modes"] if mode["name"] == name]

    @decorators.idempotent_id("d13d857b-53fc-4bdd-932e-9a5d27f4284e")
    def test_what_no_mode_of_an_aggregate_can_be_is_refused(self):
        for name, mode in (("ssd", "brave"), ("", "observe"), (" ssd", "observe")):
            self.refused(
                "bad-request",
                exceptions.BadRequest,
                self.operator.set_aggregate_mode,
                name,
                mode,
            )
