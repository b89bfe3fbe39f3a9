# SPDX-License-Identifier: Apache-2.0
"""What Prometheus would scrape of the lab: every query that we ship finds something to ask, and
health follows the broker. With Prometheus installed it also evaluates them.
"""

import json
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from contextlib import ExitStack, closing

import promql_parser
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from testbed.lab import cloud, settings
from testbed.lab.host import Host
from tests.lab.compute_nodes import wait_until_heard_again, wait_until_up
from tests.lab.hosts import HOSTS, wait_until_measured
from tests.lab.operators import CONTROLLER_CONF, host_conf, reconfigured, vp_api
from tests.promql import ETC, queries, selectors
from tests.rabbitmq import free_port

AGENT_PORT, SCHEDULER_PORT, API_PORT = 9779, 9780, 9781
TARGETS = {
    "nova-vp-agent": [f"{Host(host).address}:{AGENT_PORT}" for host in HOSTS],
    "nova-vp-scheduler": [f"{settings.CONTROLLER_IP}:{SCHEDULER_PORT}"],
    "nova-vp-api": [f"{settings.CONTROLLER_IP}:{API_PORT}"],
}
ALL = [target for targets in TARGETS.values() for target in targets]
ONLY_WHEN = {
    # No lab host is calibrated, and the software PMU is a source.
    "nova_vp_node_limit_llc_misses_per_second",
    # Its guests wait for this machine's CPUs: `cpu_times = false`.
    "nova_vp_server_cpu_waiting_ratio",
    "nova_vp_server_cpu_throttled_ours_ratio",
    "nova_vp_server_cpu_throttled_nova_ratio",
}


def get(target, path):
    try:
        answer = urllib.request.urlopen(f"http://{target}{path}", timeout=10)
    except urllib.error.HTTPError as exc:
        answer = exc
    with closing(answer):
        return answer.read().decode()


def health(target):
    try:
        return json.loads(get(target, "/health"))
    except OSError:
        return {"status": "", "checks": {}}


@pytest.fixture(scope="module")
def served(admin):
    """Agents and vp-scheduler with ports, and a server that is measured."""
    with ExitStack() as stack:
        for host in HOSTS:
            more = f"[agent]\nmetrics_address = 0.0.0.0\nmetrics_port = {AGENT_PORT}"
            stack.enter_context(reconfigured(host_conf(host), more, f"vp-agent@{host}"))
        more = "".join(
            f"[{group}]\nmetrics_address = 0.0.0.0\nmetrics_port = {port}\n"
            for group, port in (("vp_scheduler", SCHEDULER_PORT), ("vp_api", API_PORT))
        )
        stack.enter_context(reconfigured(CONTROLLER_CONF, more, "vp-scheduler", "vp-api"))
        server = cloud.boot(admin, "t-chase", "vp.tiny", "work=chase:384", host="vp1")
        wait_until_measured("vp1", server.id)
        for target in ALL:
            cloud.wait_for(
                lambda t=target: health(t)["status"], f"{target} to answer", deadline_s=120
            )
        vp_api(admin).list_vps()
        yield server


def samples():
    """Labels of every series that the lab exports, by name."""
    found = {}
    for target in ALL:
        for family in text_string_to_metric_families(get(target, "/metrics")):
            for sample in family.samples:
                found.setdefault(sample.name, []).append(sample.labels)
    return found


def test_every_query_asks_for_what_the_lab_exports(served):
    exported = samples()
    for where, text in queries():
        for selector in selectors(promql_parser.parse(text)):
            if selector.name != "up" and selector.name not in ONLY_WHEN:
                assert selector.name in exported, where
                wanted = {matcher.name for matcher in selector.matchers.matchers}
                assert any(wanted <= labels.keys() for labels in exported[selector.name]), where


def test_a_server_is_found_as_watcher_looks_for_it(served):
    exported = samples()
    ours = {"fqdn": "vp1", "resource": served.id}
    for name in ("cycles_per_instruction", "llc_misses_per_kilo_instructions", "hurt", "state"):
        assert ours in exported[f"nova_vp_server_{name}"]
    told = "".join(get(target, "/metrics") for target in TARGETS["nova-vp-agent"])
    named = [line for line in told.splitlines() if "t-chase" in line or served.project_id in line]
    assert len(named) == 1
    assert named[0].startswith("nova_vp_server_info{"), "no other series says whose it is"


def test_health_follows_the_broker(served, admin):
    def bus_is(status):
        return lambda: all(
            health(target)["checks"].get("bus:connection", [{}])[0].get("status") == status
            for target in ALL
        )

    cloud.wait_for(bus_is("pass"), "the bus to be well", deadline_s=120)
    cloud.stop("rabbitmq")
    try:
        cloud.wait_for(bus_is("warn"), "health to warn of the bus", deadline_s=120)
    finally:
        cloud.start("rabbitmq")
    cloud.wait_for(bus_is("pass"), "the bus to be well again", deadline_s=120)
    wait_until_heard_again(admin, *HOSTS)
    wait_until_up(admin, *HOSTS)


@pytest.fixture
def prometheus(served, tmp_path):
    """Its URL, once it has scraped all targets."""
    if shutil.which("prometheus") is None:
        pytest.skip("Debian's package prometheus is not installed")
    jobs = [
        {"job_name": job, "static_configs": [{"targets": targets}]}
        for job, targets in TARGETS.items()
    ]
    rules = str(ETC / "prometheus/nova-vp-rules.yaml")
    settings_of = {
        "global": {"scrape_interval": "1s"}, "scrape_configs": jobs, "rule_files": [rules],
    }  # fmt: skip
    (tmp_path / "prometheus.yml").write_text(yaml.safe_dump(settings_of))
    address = f"127.0.0.1:{free_port()}"
    process = subprocess.Popen(
        [
            "prometheus",
            f"--config.file={tmp_path}/prometheus.yml",
            f"--storage.tsdb.path={tmp_path}/data",
            f"--web.listen-address={address}",
        ]
    )

    def has_scraped():
        try:
            return len(asked(address, "up == 1")) == len(ALL)
        except OSError:
            return False

    try:
        cloud.wait_for(has_scraped, "Prometheus to scrape everything", deadline_s=120)
        yield address
    finally:
        process.terminate()
        process.wait()


def asked(address, query):
    quoted = urllib.parse.quote(query)
    told = json.loads(get(address, f"/api/v1/query?query={quoted}"))
    assert told["status"] == "success", (query, told)
    return told["data"]["result"]


def test_prometheus_evaluates_every_query(prometheus, served):
    for where, text in queries():
        assert asked(prometheus, text) is not None, where
    found = asked(prometheus, f'nova_vp_server_state{{resource="{served.id}"}}')
    assert [one["metric"]["fqdn"] for one in found] == ["vp1"]
    rules = json.loads(get(prometheus, "/api/v1/rules"))["data"]["groups"]
    assert [rule for group in rules for rule in group["rules"] if rule.get("lastError")] == []
