# SPDX-License-Identifier: Apache-2.0
"""The monitor of request classes in an application, through the real vp-api."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vp_client
from nova_vp.core.types.overlay import CallAnswer, CallResource, Direction, Nack, Verb
from nova_vp.monitors.backlog import NetworkBacklog
from nova_vp.monitors.request_classes import RequestSettings
from nova_vp.monitors.stream_classes import StreamClasses, StreamSettings
from tests.unit.api import cloud
from tests.unit.api.stored import holding
from tests.unit.client.conftest import Cloud, serving
from vp_client import connection

pytestmark = pytest.mark.filterwarnings("ignore:Support for InfluxDB")
PAGE = Path(__file__).parents[3] / "doc/source/first-overlay.md"
ONE_STEP = RequestSettings(steps_down=1, retry_s=0.0)


@pytest.fixture
def lab(shell, tmp_path, monkeypatch) -> Iterator[Cloud]:
    with serving(holding(), shell, tmp_path) as one:
        one.run("vp overlay remove server checkout sleeper", user="member")
        for name, value in one.environment("member").items():
            monkeypatch.setenv(name, value)
        # One connection for all of a process: here each test has a cloud of its own.
        connection._client.cache_clear()
        yield one
        connection._client.cache_clear()


@pytest.fixture
def overlay(lab: Cloud) -> Iterator[vp_client.Overlay]:
    one = vp_client.Overlay(None, cloud.OVERLAY)
    yield one
    session = one._client._api._adapter.session
    session._session and session._session.close()


def calls(lab: Cloud) -> list[tuple[Verb, str, Direction]]:
    asked = [message.call for _, message in lab.agents.calls]
    return [(call.verb, call.guest_uuid, call.direction) for call in asked]


def test_a_frequent_class_lowers_what_it_does_not_need_and_all_goes_back(lab, overlay) -> None:
    classes = {"browse": (), "bid": (cloud.VICTIM,)}
    with vp_client.RequestMonitor(overlay, classes, ONE_STEP) as monitor:
        monitor.count("browse")
        monitor.look()
        assert calls(lab) == [(Verb.TUNE, cloud.VICTIM, Direction.DOWN)]
        monitor.look()
        assert len(calls(lab)) == 1
    assert [verb for verb, *_ in calls(lab)] == [Verb.TUNE, Verb.RELEASE]


def test_a_needed_server_borrows_and_gives_back(lab, overlay) -> None:
    settings = RequestSettings(borrows=2, steps_down=0, memory_s=0.001, renew_s=0.0)
    monitor = vp_client.RequestMonitor(overlay, {"browse": (), "bid": (cloud.VICTIM,)}, settings)
    monitor.count("bid")
    monitor.look()
    monitor.look()
    monitor.count("browse")
    monitor.look()
    assert [verb for verb, *_ in calls(lab)] == [Verb.BORROW, Verb.RENEW, Verb.RELEASE]


def test_refusals_and_an_api_that_is_away_never_reach_the_application(lab, overlay) -> None:
    monitor = vp_client.RequestMonitor(overlay, {"browse": (), "bid": (cloud.VICTIM,)}, ONE_STEP)
    lab.agents.answers["lab-1"] = CallAnswer("", Nack.NO_ROOM)
    monitor.count("browse")
    monitor.look()
    lab.balancer.is_without_api = True
    monitor.look()
    lab.balancer.is_without_api = False
    lab.agents.answers.clear()
    monitor.look()
    monitor.look()
    assert len(calls(lab)) == 2, "the third one was granted"


def test_any_monitor_is_run_in_an_application(lab, overlay) -> None:
    monitor = NetworkBacklog()
    monitor.see(cloud.VICTIM, waiting_kib=200.0, lost=0)
    assert vp_client.make_calls(overlay, monitor)
    assert not vp_client.make_calls(overlay, monitor), "its lease stands"
    [(_, message)] = lab.agents.calls
    assert message.call.verb is Verb.TRIGGER
    assert message.call.lease_s == 0.25


def test_a_monitor_in_an_application_tunes_every_resource(lab, overlay) -> None:
    monitor = StreamClasses(StreamSettings(io_steps=1))
    monitor.see(cloud.VICTIM, kbit_s=1000.0, fps=25.0)
    assert vp_client.make_calls(overlay, monitor)
    asked = [message.call.resource for _, message in lab.agents.calls]
    assert asked == [CallResource.CPU, CallResource.IO]


def test_the_example_of_the_page_runs(lab) -> None:
    code = PAGE.read_text().split("```python\n")[1].split("```")[0]
    code = code.replace("22222222-2222-4222-8222-222222222222", cloud.VICTIM)
    code = code.replace("33333333-3333-4333-8333-333333333333", cloud.VICTIM)
    example: dict[str, Any] = {}
    exec(compile(code, str(PAGE), "exec"), example)
    answered: list[str] = []
    lab.run("vp overlay set checkout --name shop", user="member")
    example["serve"](["/item/7", "/bid/7"], answered.append)
    assert answered == ["/item/7", "/bid/7"]
    assert [example["class_of"](path) for path in answered] == ["browse", "bid"]
