# SPDX-License-Identifier: Apache-2.0
"""Reports of latency from a shell and from a program, through the real vp-api."""

import math
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
import webob

import vp_client
from nova_vp.latency_message import read_latency
from tests.unit.api import cloud
from tests.unit.api.stored import holding
from tests.unit.client.conftest import Cloud, serving
from vp_agent.latency.base import percentile_of
from vp_client import connection, service_formatters
from vp_client import latency as module
from vp_client.errors import LoginFailed, Refused, Unreachable

# openstacksdk says at each import of its configuration that it will do without InfluxDB.
pytestmark = pytest.mark.filterwarnings("ignore:Support for InfluxDB")


@pytest.fixture
def lab(shell, tmp_path) -> Iterator[Cloud]:
    with serving(holding(), shell, tmp_path) as one:
        yield one


@pytest.fixture
def application(lab: Cloud, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    """This process, with credentials of a member in its environment."""
    for name, value in lab.environment("member").items():
        if name.startswith("OS_"):
            monkeypatch.setenv(name, value)
    monkeypatch.setattr(module.time, "time", lambda: cloud.NOW_S)
    yield lab
    if connection._client.cache_info().currsize:
        connection._client()._api._adapter.session._session.close()
    connection._client.cache_clear()


def test_the_shell_reports(lab: Cloud) -> None:
    ran = lab.run("vp latency report victim --latency-ms 8.5 --load 450000", user="member")
    assert ran.words.startswith("victim: 8.5 ms sent to its host")
    [(host, text)] = lab.agents.latency
    sent = read_latency(text)
    assert (host, sent.server) == ("lab-1", cloud.VICTIM)
    assert (sent.latency_ms, sent.load, sent.percentile) == (8.5, 450_000, None)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("--latency-ms -3", "latency_ms"),
        ("--latency-ms nan", "NaN is no number"),
        ("--latency-ms inf", "Infinity is no number"),
        ("--latency-ms soon", "invalid float value"),
        ("--load 5", "--latency-ms"),
        ("--latency-ms 1 --percentile 100", "percentile"),
    ],
)
def test_the_shell_says_what_is_wrong(arguments: str, said: str, lab: Cloud) -> None:
    ran = lab.run(f"vp latency report {cloud.VICTIM} {arguments}", user="member")
    assert ran.rc != 0
    assert said in ran.err
    assert lab.agents.latency == []


def test_an_application_reports_over_one_connection(application: Cloud) -> None:
    told = vp_client.report_latency(cloud.VICTIM, 8.5, load=450_000)
    assert told["measured_at"] == "2026-01-02T03:04:05Z"
    [(_, text)] = application.agents.latency
    assert read_latency(text).measured_at_ms == round(cloud.NOW_S * 1000)
    asked = application.keystone.tokens_given
    with pytest.raises(Refused) as refused:
        vp_client.report_latency(cloud.VICTIM, 9.0)
    assert refused.value.status == 409
    assert "Measure again" in str(refused.value)
    assert application.keystone.tokens_given == asked


def test_threads_that_begin_at_once_share_the_connection(application: Cloud) -> None:
    faults: list[int] = []

    def report(number: int) -> None:
        try:
            vp_client.report_latency(cloud.VICTIM, 8.5)
        except Refused as exc:
            faults.append(exc.status)

    threads = [threading.Thread(target=report, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == [409] * 3
    assert len(application.agents.latency) == 1
    assert application.keystone.tokens_given == 2  # Ours, and vp-api's to check it with.


@pytest.mark.parametrize("latency_ms", [-1.0, 0.0, float("nan"), 1e9])
def test_an_application_that_measures_nonsense_is_told(
    latency_ms: float, application: Cloud
) -> None:
    with pytest.raises(Refused) as refused:
        vp_client.report_latency(cloud.VICTIM, latency_ms)
    assert refused.value.status == 400


def test_an_application_hears_that_nobody_answers(application: Cloud) -> None:
    application.balancer.is_without_api = True
    with pytest.raises(Refused, match="not from vp-api") as refused:
        vp_client.report_latency(cloud.VICTIM, 8.5)
    assert refused.value.status == 503
    application.balancer.is_without_api = False
    application.balancer.application = webob.Response("<html>Welcome</html>")
    with pytest.raises(Unreachable, match="not from vp-api"):
        vp_client.report_latency(cloud.VICTIM, 8.5)


def test_an_application_whose_cloud_nobody_knows_is_told(
    application: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OS_CLOUD", "unknown")
    with pytest.raises(LoginFailed, match="unknown"):
        vp_client.report_latency(cloud.VICTIM, 8.5)


def test_an_application_that_may_not_log_in_is_told_and_may_later(application: Cloud) -> None:
    application.keystone.closed_projects.add(cloud.ALPHA)
    with pytest.raises(LoginFailed, match="no role"):
        vp_client.report_latency(cloud.VICTIM, 8.5)
    application.keystone.closed_projects.clear()
    assert vp_client.report_latency(cloud.VICTIM, 8.5)["latency_ms"] == 8.5


def test_an_application_whose_token_is_not_renewed_is_told(application: Cloud) -> None:
    vp_client.report_latency(cloud.VICTIM, 8.5)
    connection._client()._api._adapter.session.invalidate()
    application.keystone.closed_projects.add(cloud.ALPHA)
    with pytest.raises(LoginFailed, match="no role"):
        vp_client.report_latency(cloud.VICTIM, 8.5)


def test_an_application_does_not_wait_for_a_keystone_that_hangs(
    application: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        monkeypatch.setenv("OS_AUTH_URL", f"http://127.0.0.1:{silent.getsockname()[1]}/v3")
        with pytest.raises(LoginFailed, match="timed out"):
            vp_client.report_latency(cloud.VICTIM, 8.5)


def test_the_package_has_no_other_name() -> None:
    with pytest.raises(AttributeError, match="report_load"):
        vp_client.report_load  # noqa: B018


def test_show_tells_the_target_and_what_became_of_the_reports(lab: Cloud) -> None:
    words = lab.run("vp show victim", user="member").words
    assert "latency-critical: 95 % of its requests within 10 ms, load up to 450 k" in words
    assert "last report: 8.5 ms, load 120 k at 2026-01-02T03:04:00Z" in words
    assert "reports: 40 used, 2 ignored (too-soon 2)" in words
    host = lab.run("vp host show lab-1").words
    assert f"project {cloud.ALPHA}: 40 used, 2 ignored (too-soon 2), of 1 servers" in host


SHOWN = [
    (None, "none", "-"),
    (
        cloud.a_service(**{"class": "best-effort", "may_suspend": True}),
        "best-effort: may be suspended",
        "best-effort",
    ),
    (
        cloud.a_service(**{"class": "best-effort"}),
        "best-effort: keeps its CPU floor",
        "best-effort",
    ),
    (
        cloud.a_service(latency_target_ms=None, max_load=None, reported=None, ignored={}),
        "latency-critical: no latency target\nno report is in use\nreports: 40 used, 0 ignored",
        "8.5/?",
    ),
]


@pytest.mark.parametrize(("told", "shown", "listed"), SHOWN)
def test_classes_in_words(told, shown: str, listed: str) -> None:
    assert service_formatters.service(told) == shown
    assert service_formatters.listed_service({"service": told and {**told, "latency_ms": 8.5}}) == (
        listed
    )
    assert service_formatters.listed_service({}) == "-"


GUIDE = (Path(__file__).parents[3] / "doc/source/latency.md").read_text()


@pytest.mark.parametrize("count", [1, 2, 3, 10, 19, 20, 21, 100])
def test_the_guide_reports_the_95th_percentile_of_few_requests_too(count) -> None:
    """As a probe of the agent: of two requests the slower one."""
    [formula] = re.findall(r"^ +p95_ms = (.+)$", GUIDE, re.M)
    latencies_ms = [float(number) for number in range(count)]
    found = eval(formula, {"math": math, "latencies_ms": latencies_ms})
    assert found == percentile_of(latencies_ms, 95.0)
