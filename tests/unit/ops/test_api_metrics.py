# SPDX-License-Identifier: Apache-2.0
"""What vp-api counts of its requests: by route, never by what a path names."""

import os
import subprocess
import sys
from pathlib import Path

import requests
import webob

from tests.keystone import Keystone
from tests.loopback import served
from tests.rabbitmq import free_port
from tests.unit.api import cloud
from tests.unit.api.client import configuration
from tests.unit.api.stored import holding
from tests.unit.api.test_wsgi import prepare, url_of
from vp_api import deploy
from vp_api.metrics import NO_ROUTE, Metered, Meters, registry_of
from vp_api.testing import MemoryAgents

ADMIN = {"X-User-Id": "u", "X-Project-Id": cloud.ALPHA, "X-Roles": "admin,manager,member,reader"}


def let_in(application, conf):
    """In place of auth_token: identity headers are believed."""
    return application


def counted(*asked):
    """The registry after these requests, (method, path) each."""
    application = deploy.loadapp(
        configuration(),
        holding(),
        MemoryAgents(),
        clock=lambda: cloud.NOW,
        authenticate=let_in,
    )
    meters = Meters()
    metered = Metered(application, meters)
    for method, path in asked:
        webob.Request.blank(path, method=method, headers=ADMIN).get_response(metered)
    return registry_of(meters, lambda: True)


def requests_of(registry):
    return {
        (s.labels["route"], s.labels["method"], s.labels["status"]): s.value
        for metric in registry.collect()
        for s in metric.samples
        if s.name == "nova_vp_api_requests_total"
    }


def test_requests_are_counted_by_route_method_and_status():
    registry = counted(("GET", "/v1/hosts/lab-1"), ("GET", "/v1/hosts/canary"), ("GET", "/v1/vps"))
    assert requests_of(registry) == {
        ("/v1/hosts/{host}", "GET", "200"): 1,
        ("/v1/hosts/{host}", "GET", "404"): 1,
        ("/v1/vps", "GET", "200"): 1,
    }
    value = registry.get_sample_value
    assert value("nova_vp_api_request_seconds_count", {"route": "/v1/hosts/{host}"}) == 2
    assert value("nova_vp_api_bus_up") == 1


def test_what_somebody_makes_up_adds_no_series():
    made_up = [("GET", f"/canary-{n}") for n in range(5)]
    registry = counted(*made_up, *((f"CANARY{n}", "/v1/vps") for n in range(5)))
    assert requests_of(registry) == {
        (NO_ROUTE, "GET", "404"): 5,
        ("/v1/vps", "other", "405"): 5,
    }
    assert "canary" not in str(list(registry.collect())).lower()


def test_several_processes_are_summed_up_on_one_port(tmp_path):
    """waitress runs one; its numbers go through the files that several share."""
    port = free_port()
    (tmp_path / "sums").mkdir()
    with served(Keystone()) as keystone_url:
        prepare(tmp_path, keystone_url)
        with (tmp_path / "nova-vp.conf").open("a") as file:
            file.write(f"[vp_api]\nmetrics_port = {port}\n")
        program = Path(sys.executable).with_name("waitress-serve")
        process = subprocess.Popen(
            [program, "--listen=127.0.0.1:0", "vp_api.wsgi:application"],
            env=os.environ
            | {
                "OS_NOVA_VP_CONFIG_DIR": str(tmp_path),
                "PROMETHEUS_MULTIPROC_DIR": str(tmp_path / "sums"),
                "PYTHONWARNINGS": "ignore",
            },
            stderr=subprocess.STDOUT,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            url = url_of(process)
            requests.get(f"{url}/v1/hosts", timeout=60)
            assert requests.get(f"{url}/health", timeout=60).json()["status"] == "pass"
            told = requests.get(f"http://127.0.0.1:{port}/metrics", timeout=60).text
            assert requests.get(f"http://127.0.0.1:{port}/health", timeout=60).status_code == 200
        finally:
            process.terminate()
            process.communicate(timeout=30)
    assert f'nova_vp_api_requests_total{{method="GET",route="{NO_ROUTE}",status="401"}} 1.0' in told
