# SPDX-License-Identifier: Apache-2.0
"""Traits of hosts in the real Placement, beside real nova-computes that update their providers."""

from contextlib import ExitStack

import pytest

from testbed.lab import cloud, settings
from tests.lab.compute_nodes import Providers, nova_conf, wait_for_updates, wait_until_up
from tests.lab.hosts import HOSTS, set_mode
from tests.lab.operators import CONTROLLER_CONF, host_conf, reconfigured

STALE_AFTER_S = 20
FOREIGN = "CUSTOM_T_FOREIGN"
PLAIN = {"MANAGED", "COUNTERS"}
CLOUD = f"""[cloud]
auth_type = password
auth_url = {settings.KEYSTONE_URL}
username = nova-vp
password = {settings.PASSWORD}
user_domain_id = default
project_domain_id = default
project_name = service
[vp_scheduler]
traits_interval_s = 2
stale_after_s = {STALE_AFTER_S}"""


@pytest.fixture(scope="module")
def providers(admin):
    """Of two hosts that report often, and a vp-scheduler that keeps their traits."""
    with ExitStack() as stack:
        for host in HOSTS:
            often = "[bus]\nrefresh_interval_s = 2"
            stack.enter_context(reconfigured(host_conf(host), often, f"vp-agent@{host}"))
            update = "[DEFAULT]\nupdate_resources_interval = 10"
            stack.enter_context(reconfigured(nova_conf(host), update, f"nova-compute@{host}"))
        stack.enter_context(reconfigured(CONTROLLER_CONF, CLOUD, "vp-scheduler"))
        wait_until_up(admin, *HOSTS)
        yield Providers(admin)


def wait_for_ours(providers: Providers, host: str, expected: set[str]) -> None:
    what = f"{host} to have {sorted(expected)}"
    cloud.wait_for(
        lambda: providers.ours(host) == expected,
        what,
        deadline_s=60 + STALE_AFTER_S,
        interval_s=0.5,
    )


def test_hosts_have_the_traits_of_their_agents(admin, providers):
    for host in HOSTS:
        wait_for_ours(providers, host, PLAIN)
    set_mode("vp2", "enforce")
    wait_for_ours(providers, "vp2", PLAIN | {"ENFORCE"})
    assert providers.ours("vp1") == PLAIN


def test_a_flavor_that_requires_one_is_placed_by_it(admin, providers):
    flavor = cloud.put_flavor(admin, "t.enforced", specs={"trait:CUSTOM_VP_ENFORCE": "required"})
    set_mode("vp2", "enforce")
    wait_for_ours(providers, "vp2", PLAIN | {"ENFORCE"})
    server = cloud.boot(admin, "t-enforced", flavor)
    assert cloud.server_host(admin, server) == "vp2"
    cloud.delete(admin, server)
    set_mode("vp2", "observe")
    wait_for_ours(providers, "vp2", PLAIN)
    with pytest.raises(cloud.LabError, match="No valid host"):
        cloud.boot(admin, "t-enforced-nowhere", flavor)


def test_they_survive_nova_computes_updates_and_restarts_without_any_help(admin, providers):
    """vp-scheduler is stopped, so that nobody sets them again."""
    wait_for_ours(providers, "vp1", PLAIN)
    providers.add_trait("vp1", FOREIGN)
    cloud.stop("vp-scheduler")
    try:
        before = providers.traits("vp1")
        wait_for_updates("vp1")
        assert providers.traits("vp1") == before
        for end in (cloud.stop, cloud.kill):
            end("nova-compute@vp1")
            cloud.start("nova-compute@vp1")
            wait_for_updates("vp1")
            assert providers.traits("vp1") == before
    finally:
        cloud.start("vp-scheduler")
    assert FOREIGN in before


def test_a_host_that_is_silent_loses_ours_and_no_others(admin, providers):
    before = providers.ours("vp2")
    cloud.stop("vp-agent@vp1")
    try:
        wait_for_ours(providers, "vp1", set())
        assert FOREIGN in providers.traits("vp1")
        assert providers.ours("vp2") == before >= PLAIN
    finally:
        cloud.start("vp-agent@vp1")
    wait_for_ours(providers, "vp1", PLAIN)
    providers.remove_trait("vp1", FOREIGN)
