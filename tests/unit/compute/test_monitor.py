# SPDX-License-Identifier: Apache-2.0
"""Our measurements among Nova's metrics: real loader, real resource tracker code, real weigher."""

import json
import logging
from pathlib import Path
from typing import Any

import nova.conf
import oslo_messaging
import pytest
from nova import context, objects, rpc
from nova.compute import monitors
from nova.compute.resource_tracker import ResourceTracker
from nova.scheduler.filters import HostFilterHandler
from nova.scheduler.filters.metrics_filter import MetricsFilter
from nova.scheduler.host_manager import HostState
from nova.scheduler.weights import HostWeightHandler
from nova.scheduler.weights.metrics import MetricsWeigher
from oslo_messaging.notify import _impl_test as heard
from oslo_serialization import jsonutils

from nova_vp.conf import compute
from nova_vp.service.run_dir import LOAD, STALE_AFTER_S, Load, NodeLoad, boot_clock_s, write_load

pytestmark = pytest.mark.nova
CURRENT, MAX = "numa.membw.current", "numa.membw.max"
MB = 1e6


class Driver:
    """Of a compute driver, what Nova's own monitor asks."""

    def get_host_cpu_stats(self) -> dict[str, int]:
        return {"user": 30, "kernel": 20, "idle": 40, "iowait": 10, "frequency": 800}


class Tracker:
    """What Nova's resource tracker is to its monitors, with its own code for metrics."""

    host = "vp1"
    _get_host_metrics = ResourceTracker._get_host_metrics

    def __init__(self) -> None:
        self.driver = Driver()
        self.monitors = monitors.MonitorHandler(self).monitors

    def stored(self) -> str:
        """What the compute node's row in the database gets."""
        admin = context.get_admin_context()
        return jsonutils.dumps(self._get_host_metrics(admin, "vp1"))

    def values(self) -> dict[str, int]:
        metrics = objects.MonitorMetricList.from_json(self.stored())
        return {metric.name: metric.value for metric in metrics}


@pytest.fixture
def run_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    conf = nova.conf.CONF
    compute.register_opts(conf)
    conf([], project="nova", default_config_files=[])
    oslo_messaging.get_notification_transport(conf, url="fake:/")  # registers oslo's options
    set_options = [
        ("compute_monitors", ["cpu.vp"], None),
        ("run_directory", str(tmp_path), compute.GROUP),
        ("compute_driver", "libvirt.LibvirtDriver", None),
        ("transport_url", "fake:/", None),
        ("notification_format", "both", "notifications"),
        ("driver", ["test"], "oslo_messaging_notifications"),
    ]
    for name, value, group in set_options:
        conf.set_override(name, value, group)
    rpc.init(conf)
    heard.reset()
    yield tmp_path
    rpc.cleanup()
    for name, _, group in set_options:
        conf.clear_override(name, group)
    conf.reset()


def tell(folder: Path, *mb_per_s: float, limit: float | None = None, **fields: Any) -> None:
    nodes = tuple(NodeLoad(n, MB * value, limit and MB * limit) for n, value in enumerate(mb_per_s))
    written = {"at_s": boot_clock_s(), "source": "perf", "problem": "", "nodes": nodes, **fields}
    write_load(folder, Load(**written))


def test_novas_loader_takes_it_by_its_name_and_only_then(run_folder: Path) -> None:
    [monitor] = Tracker().monitors
    assert type(monitor).__module__ == "nova_vp.compute.monitor"
    assert monitor.get_metric_names() == {CURRENT, MAX}
    nova.conf.CONF.set_override("compute_monitors", ["cpu.virt_driver"])
    [monitor] = Tracker().monitors
    assert type(monitor).__module__ == "nova.compute.monitors.cpu.virt_driver"


def test_load_and_limit_are_metrics_in_whole_megabytes_per_second(run_folder: Path) -> None:
    tell(run_folder, 1500.4, 20.0, limit=70_000.0)
    assert Tracker().values() == {CURRENT: 1520, MAX: 140_000}


def test_a_host_that_was_not_calibrated_has_no_maximum(run_folder: Path) -> None:
    tell(run_folder, 1500.0)
    assert Tracker().values() == {CURRENT: 1500}


def test_notifications_name_the_nodes(run_folder: Path) -> None:
    tell(run_folder, 1500.0, 20.0)
    Tracker().stored()
    bodies = {event["event_type"]: event["payload"] for _, event, _, _ in heard.NOTIFICATIONS}
    [told] = bodies["metrics.update"]["nova_object.data"]["metrics"]
    told = told["nova_object.data"]
    assert (told["name"], told["value"], told["source"]) == (CURRENT, 1520, "nova-vp/perf")
    assert told["numa_membw_values"] == {"0": 1500, "1": 20}
    [legacy] = bodies["compute.metrics.update"]["metrics"]
    assert (legacy["name"], legacy["value"]) == (CURRENT, 1520)


@pytest.mark.parametrize(
    ("label", "told"),
    [
        ("stale", {"at_s": boot_clock_s() - STALE_AFTER_S - 1}),
        ("of another boot", {"at_s": boot_clock_s() + 1000}),
        ("no counters", {"nodes": (), "problem": "no counter source works"}),
        ("not a number", {"nodes": (NodeLoad(0, float("nan"), None),)}),
        ("nothing said", {"nodes": ()}),
    ],
)
def test_without_numbers_that_can_be_used_there_is_no_metric_and_it_is_said_once(
    run_folder: Path, caplog: pytest.LogCaptureFixture, label: str, told: dict[str, Any]
) -> None:
    caplog.set_level(logging.INFO, "nova_vp")
    tracker = Tracker()
    tell(run_folder, 1500.0, **told)
    assert [tracker.values() for _ in range(3)] == [{}] * 3
    tell(run_folder, 1500.0)
    assert tracker.values() == {CURRENT: 1500}
    levels = [r.levelname for r in caplog.records if r.name == "nova_vp.compute.monitor"]
    assert levels == ["WARNING", "INFO"]


@pytest.mark.parametrize("text", ["", "[]", "null", "{", '{"v": 2}', "[" * 100_000])
def test_a_file_of_another_version_or_a_broken_one_is_no_metric(run_folder, text) -> None:
    (run_folder / LOAD).write_text(text)
    assert Tracker().values() == {}


def test_without_an_agent_there_is_no_metric(run_folder: Path) -> None:
    assert Tracker().values() == {}


def test_the_cpu_metrics_of_novas_own_monitor_come_along_if_asked_for(run_folder: Path) -> None:
    nova.conf.CONF.set_override("cpu_metrics", True, compute.GROUP)
    try:
        tell(run_folder, 1500.0)
        tracker = Tracker()
        values = tracker.values()
        assert values[CURRENT] == 1500
        assert values["cpu.frequency"] == 800
        assert tracker.monitors[0].get_metric_names() == {*values, MAX}
    finally:
        nova.conf.CONF.clear_override("cpu_metrics", compute.GROUP)


def test_novas_weigher_and_filter_choose_by_it(run_folder: Path) -> None:
    nova.conf.CONF.set_override("weight_setting", [f"{CURRENT}=-1.0"], "metrics")
    nova.conf.CONF.set_override("required", False, "metrics")
    try:
        hosts = [a_host_with(run_folder, "busy", 1500.0), a_host_with(run_folder, "calm", 20.0)]
        assert ranked(hosts)[0] == "calm"
        hosts = [a_host_with(run_folder, "busy", 10.0), a_host_with(run_folder, "calm", 20.0)]
        assert ranked(hosts)[0] == "busy"
        hosts.append(a_host_with(run_folder, "silent"))
        assert ranked(hosts)[-1] == "silent"
        assert passing(hosts) == ["busy", "calm"]
    finally:
        nova.conf.CONF.clear_override("weight_setting", "metrics")
        nova.conf.CONF.clear_override("required", "metrics")


def a_host_with(run_folder: Path, name: str, *mb_per_s: float) -> HostState:
    """As nova-scheduler has it after nova-compute has stored its metrics."""
    if mb_per_s:
        tell(run_folder, *mb_per_s)
    else:
        (run_folder / LOAD).unlink()
    state = HostState(name, name, "11111111-2222-4333-8444-000000000000")
    state.metrics = objects.MonitorMetricList.from_json(Tracker().stored())
    return state


def ranked(hosts: list[HostState]) -> list[str]:
    spec = objects.RequestSpec()
    weighed = HostWeightHandler().get_weighed_objects([MetricsWeigher()], hosts, spec)
    return [one.obj.host for one in weighed]


def passing(hosts: list[HostState]) -> list[str]:
    spec = objects.RequestSpec()
    found = HostFilterHandler().get_filtered_objects([MetricsFilter()], hosts, spec)
    return [host.host for host in found]


def test_what_is_told_names_no_server_and_any_user_may_read_it(run_folder: Path) -> None:
    tell(run_folder, 1500.0)
    path = run_folder / LOAD
    assert path.stat().st_mode & 0o777 == 0o644
    assert set(json.loads(path.read_text())) == {"v", "at_s", "source", "problem", "nodes"}
