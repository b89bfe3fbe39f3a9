# SPDX-License-Identifier: Apache-2.0
"""Our monitor in the real nova-compute: stock MetricsWeigher sees a guest that streams, and one
service per host is enough.
"""

from contextlib import ExitStack, suppress

import pytest

from testbed.lab import cloud, settings
from tests.lab.compute_nodes import metrics, nova_conf, wait_until_up
from tests.lab.hosts import HOSTS, run_folder, wait_until_homed, wait_until_measured
from tests.lab.operators import host_conf, reconfigured
from vp_agent.loop.control_socket import NoAgent, ask

CURRENT, MAX = "numa.membw.current", "numa.membw.max"
LIMIT_MISSES_PER_S = 2_000_000
MONITOR = "[DEFAULT]\ncompute_monitors = cpu.vp\nupdate_resources_interval = 10"
STOCK = f"""[filter_scheduler]
weight_classes = nova.scheduler.weights.all_weighers
enabled_filters = ComputeFilter,ImagePropertiesFilter,MetricsFilter
[metrics]
weight_setting = {CURRENT}=-1.0
weight_multiplier = 100.0
required = false"""
SUPERVISED = f"""{MONITOR}
[vp_compute]
supervise_agent = true
agent_command = vp-agent --config-file /etc/nova-vp/nova-vp.conf run"""
CLEAR_MB_PER_S = 5


@pytest.fixture(scope="module")
def monitored(admin):
    """Every nova-compute has our monitor; nova-scheduler chooses by Nova's own plugins alone."""
    with ExitStack() as stack:
        for host in HOSTS:
            limit = f"[agent]\nnode_limit_misses_per_s = {LIMIT_MISSES_PER_S}"
            stack.enter_context(reconfigured(host_conf(host), limit, f"vp-agent@{host}"))
            stack.enter_context(reconfigured(nova_conf(host), MONITOR, f"nova-compute@{host}"))
        conf = settings.ETC / "nova.conf"
        stack.enter_context(reconfigured(conf, STOCK, "nova-scheduler"))
        wait_until_up(admin, *HOSTS)
        yield


def chosen(admin) -> str:
    server = cloud.boot(admin, "t-newcomer", "vp.tiny")
    host = cloud.server_host(admin, server)
    cloud.delete(admin, server)
    return host


def wait_for_lighter(lighter: str, heavier: str) -> None:
    def is_lighter() -> bool:
        values = [metrics(host).get(CURRENT) for host in (lighter, heavier)]
        return None not in values and values[0] + CLEAR_MB_PER_S < values[1]

    cloud.wait_for(is_lighter, f"{lighter} to show less traffic than {heavier}", deadline_s=180)


def test_an_unmodified_nova_compute_tells_load_and_limit_of_every_host(monitored):
    for host in HOSTS:
        cloud.wait_for(lambda host=host: MAX in metrics(host), f"metrics of {host}", deadline_s=120)
        found = metrics(host)
        assert found[CURRENT] >= 0
        nodes, rest = divmod(found[MAX], LIMIT_MISSES_PER_S * 64 // 1_000_000)
        assert (nodes, rest) == (2, 0)


def test_stock_metrics_weigher_changes_its_mind_when_a_guest_starts_to_stream(admin, monitored):
    moderate = cloud.boot(admin, "t-moderate", "vp.tiny", "work=chase:2048", host="vp1")
    streamer = cloud.boot(admin, "t-streamer", "vp.tiny", "work=stream:8192", host="vp2")
    wait_until_homed("vp1", moderate.id)
    wait_until_measured("vp2", streamer.id, state=8)
    admin.compute.pause_server(streamer)
    wait_for_lighter("vp2", "vp1")
    assert chosen(admin) == "vp2"
    admin.compute.unpause_server(streamer)
    wait_for_lighter("vp1", "vp2")
    assert chosen(admin) == "vp1"
    cloud.delete(admin, moderate, streamer)


def test_without_an_agent_the_host_has_no_metric(monitored):
    cloud.stop("vp-agent@vp1")
    try:
        cloud.wait_for(lambda: metrics("vp1") == {}, "the metric to go", deadline_s=120)
        assert CURRENT in metrics("vp2")
    finally:
        cloud.start("vp-agent@vp1")
    cloud.wait_for(lambda: CURRENT in metrics("vp1"), "the metric again", deadline_s=120)


def agent_pids() -> list[int]:
    """Of agents on vp1, whoever started them."""
    found = cloud.shell("vp1", "pgrep", "-f", "bin/vp-agent .*run", check=False)
    return [int(pid) for pid in found.stdout.split()]


def answers() -> bool:
    with suppress(NoAgent):
        return bool(ask(run_folder("vp1"), "status"))
    return False


@pytest.fixture
def one_service(admin):
    """vp1 without a service of the agent's own: nova-compute keeps it."""
    cloud.stop("vp-agent@vp1")
    try:
        with reconfigured(nova_conf("vp1"), SUPERVISED, "nova-compute@vp1"):
            cloud.wait_for(answers, "nova-compute's agent to answer", deadline_s=120)
            yield
    finally:
        cloud.start("vp-agent@vp1")
        cloud.wait_for(answers, "the service's agent to answer", deadline_s=120)


def wait_for_another(old: list[int]) -> list[int]:
    def another() -> list[int]:
        now = agent_pids()
        return now if now and not set(now) & set(old) and answers() else []

    return cloud.wait_for(another, "another agent", deadline_s=120, interval_s=0.5)


def test_nova_compute_keeps_one_agent_and_ends_with_it(one_service):
    [first] = agent_pids()
    cloud.shell("vp1", "kill", "-KILL", str(first))
    [second] = wait_for_another([first])
    cloud.kill("nova-compute@vp1")
    third = wait_for_another([second])
    assert len(third) == 1
    cloud.stop("nova-compute@vp1")
    try:
        cloud.wait_for(lambda: not agent_pids(), "the agent to end", deadline_s=60)
    finally:
        cloud.start("nova-compute@vp1")


def test_an_agent_that_runs_already_is_left_alone(admin):
    before = cloud.service_pid("vp-agent@vp1")
    with reconfigured(nova_conf("vp1"), SUPERVISED, "nova-compute@vp1"):
        cloud.wait_for(lambda: CURRENT in metrics("vp1"), "the metric", deadline_s=120)
        assert cloud.service_pid("vp-agent@vp1") == before
        assert len(agent_pids()) == 1
