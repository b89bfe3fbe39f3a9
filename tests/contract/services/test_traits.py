# SPDX-License-Identifier: Apache-2.0
"""Traits of hosts against the real Placement: what is written, by whom else, and what is left."""

import itertools
import logging
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from keystoneauth1 import exceptions
from keystoneauth1.adapter import Adapter
from oslo_config import cfg
from oslo_db import exception as db_exception

from nova_vp import conf as options
from nova_vp import wire
from nova_vp.db.records import HostHead, HostRecord
from tests.messages import a_report
from tests.placement import adapter_of, placement
from tests.waiting import wait_until
from vp_scheduler.ingest import trait_sync
from vp_scheduler.ingest.trait_sync import MICROVERSION, Hosts, Placement, TraitSync, open_traits
from vp_scheduler.placement.host_traits import OURS

STALE_AFTER_S = 180.0
WALL_S = datetime(2026, 11, 21, tzinfo=UTC).timestamp()
MANAGED, ENFORCE, COUNTERS, PARTITION, MEMORY = (
    f"CUSTOM_VP_{name}"
    for name in ("MANAGED", "ENFORCE", "COUNTERS", "CACHE_PARTITION", "MEMORY_MOVES")
)
PLAIN = {MANAGED, COUNTERS}


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with placement(tmp_path_factory.mktemp("placement")) as where:
        yield where


@pytest.fixture
def api(url: str) -> Adapter:
    return adapter_of(url, "1.39")


class Reports:
    """Of the store, what traits use; and how often a whole report was read."""

    def __init__(self) -> None:
        self.records: dict[str, HostRecord] = {}
        self.reads = 0
        self.fault: Exception | None = None

    def list_heads(self) -> list[HostHead]:
        if self.fault:
            raise self.fault
        return [
            HostHead(
                one.host, wire.MessageVersion(one.epoch, one.sequence), one.mode, one.received_at
            )
            for one in self.records.values()
        ]

    def get_host(self, name: str) -> HostRecord | None:
        self.reads += 1
        return self.records.get(name)


class World:
    """A Placement with providers of its own names, hosts that report, and one vp-scheduler."""

    def __init__(self, api: Adapter) -> None:
        self.api = api
        self.reports = Reports()
        self.now_s = 1000.0
        self.traits = self.scheduler()

    def scheduler(self, adapter: Adapter | None = None, writes_per_s: float = 1e4) -> TraitSync:
        hosts = Hosts(
            self.reports,
            STALE_AFTER_S,
            clock=lambda: self.now_s,
            wall_clock=lambda: WALL_S + self.now_s,
        )
        adapter = adapter or adapter_of(self.api.endpoint_override, MICROVERSION)
        return TraitSync(hosts, Placement(adapter), interval_s=0.05, writes_per_s=writes_per_s)

    def provider(self, *trait_sync: str) -> str:
        """A new one's name, which is its uuid too."""
        name = str(uuid.uuid4())
        self.api.post("/resource_providers", json={"name": name, "uuid": name})
        for trait in trait_sync:
            if trait.startswith("CUSTOM_"):
                self.api.put(f"/traits/{trait}")
        self.set_traits(name, *trait_sync)
        return name

    def set_traits(self, provider: str, *trait_sync: str) -> None:
        generation = self.api.get(f"/resource_providers/{provider}").json()["generation"]
        body = {"traits": trait_sync, "resource_provider_generation": generation}
        self.api.put(f"/resource_providers/{provider}/traits", json=body)

    def traits_of(self, provider: str) -> set[str]:
        return set(self.api.get(f"/resource_providers/{provider}/traits").json()["traits"])

    def generation(self, provider: str) -> int:
        return int(self.api.get(f"/resource_providers/{provider}").json()["generation"])

    def report(self, host: str, order: tuple[int, int] = (1, 1), **fields: Any) -> None:
        message = a_report(host, order, **fields)
        received_at = datetime.fromtimestamp(WALL_S + self.now_s, UTC)
        self.reports.records[host] = HostRecord(host, *order, message["mode"], received_at, message)

    def bring_up_to_date(self) -> None:
        self.traits.bring_up_to_date()


@pytest.fixture
def world(api: Adapter) -> World:
    return World(api)


@pytest.mark.parametrize(
    ("label", "fields", "expected"),
    [
        ("an agent of an older release", {}, PLAIN),
        ("no counters", {"counters": {"source": "none", "problems": []}}, {MANAGED}),
        ("it acts", {"mode": "enforce"}, PLAIN | {ENFORCE}),
        ("it only proposes", {"mode": "advise"}, PLAIN),
        ("divides caches", {"knobs": ["cpu-cap", "llc"]}, PLAIN | {PARTITION}),
        ("an older one divides them", {"knobs": ["partition"]}, PLAIN | {PARTITION}),
        ("limits bandwidth only", {"knobs": ["membw"]}, PLAIN),
        ("moves memory", {"knobs": ["memory", "placement"]}, PLAIN | {MEMORY}),
        ("moves vCPUs only", {"knobs": ["placement"]}, PLAIN),
    ],
)
def test_a_host_has_the_traits_of_what_its_agent_reports(
    world: World, label: str, fields: dict[str, Any], expected: set[str]
) -> None:
    host = world.provider()
    world.report(host, **fields)
    world.bring_up_to_date()
    assert world.traits_of(host) == expected


def test_the_hypervisors_name_is_that_of_the_provider(world: World) -> None:
    provider = world.provider()
    world.report("vp1", hypervisor=provider)
    world.bring_up_to_date()
    assert world.traits_of(provider) == PLAIN


def test_a_name_that_the_agent_does_not_know_yet_is_asked_for_again(world: World) -> None:
    provider = world.provider()
    world.report("vp1", hypervisor="")
    world.bring_up_to_date()
    world.report("vp1", (1, 2), hypervisor=provider)
    world.bring_up_to_date()
    assert world.traits_of(provider) == PLAIN


def test_traits_of_others_stay_whatever_they_are_called(world: World) -> None:
    foreign = {"HW_CPU_X86_AVX2", "CUSTOM_GOLD", "CUSTOM_VP_GOLD"}
    host = world.provider(*foreign)
    world.report(host)
    world.bring_up_to_date()
    assert world.traits_of(host) == foreign | PLAIN
    world.reports.records.clear()
    world.now_s += STALE_AFTER_S + 1
    world.bring_up_to_date()
    assert world.traits_of(host) == foreign


def test_only_differences_are_written_and_reports_read_once_per_run_of_an_agent(
    world: World,
) -> None:
    host = world.provider()
    world.report(host)
    world.bring_up_to_date()
    generation, reads = world.generation(host), world.reports.reads
    for sequence in range(2, 5):
        world.report(host, (1, sequence))
        world.bring_up_to_date()
    assert (world.generation(host), world.reports.reads) == (generation, reads)
    world.report(host, (1, 9), mode="enforce")
    world.bring_up_to_date()
    assert world.traits_of(host) == PLAIN | {ENFORCE}
    assert world.generation(host) == generation + 1
    world.report(host, (2, 1), knobs=["memory"])
    world.bring_up_to_date()
    assert world.traits_of(host) == PLAIN | {MEMORY}


def test_what_somebody_took_away_is_set_again(world: World) -> None:
    host = world.provider()
    world.report(host)
    world.bring_up_to_date()
    world.set_traits(host, "HW_CPU_X86_AVX2")
    world.bring_up_to_date()
    assert world.traits_of(host) == PLAIN | {"HW_CPU_X86_AVX2"}


def test_a_host_that_is_silent_loses_them_and_one_that_reports_keeps_them(world: World) -> None:
    silent, well = world.provider(), world.provider()
    world.report(silent)
    world.report(well)
    for sequence in range(2, 6):
        world.bring_up_to_date()
        world.now_s += STALE_AFTER_S / 2 + 1
        world.report(well, (1, sequence))
    world.bring_up_to_date()
    assert world.traits_of(silent) == set()
    assert world.traits_of(well) == PLAIN
    world.report(silent, (2, 1))
    world.bring_up_to_date()
    assert world.traits_of(silent) == PLAIN


def test_a_vp_scheduler_that_has_just_started_takes_nothing_away(world: World) -> None:
    """While none ran, nobody could report."""
    host = world.provider(MANAGED)
    world.report(host)
    world.now_s += 10 * STALE_AFTER_S
    world.traits = world.scheduler()
    world.bring_up_to_date()
    assert world.traits_of(host) == {MANAGED}
    world.now_s += STALE_AFTER_S + 1
    world.bring_up_to_date()
    assert world.traits_of(host) == set()


@pytest.mark.parametrize("skew_s", [-3600.0, 3600.0])
def test_clocks_that_differ_between_controllers_do_no_harm(world: World, skew_s: float) -> None:
    host = world.provider()
    for sequence in range(1, 6):
        world.report(host, (1, sequence))
        record = world.reports.records[host]
        world.reports.records[host] = HostRecord(
            record.host,
            record.epoch,
            record.sequence,
            record.mode,
            record.received_at + timedelta(seconds=skew_s),
            record.report,
        )
        world.bring_up_to_date()
        world.now_s += 60
    assert world.traits_of(host) == PLAIN
    for _ in range(5):
        world.now_s += 60
        world.bring_up_to_date()
    assert world.traits_of(host) == set()


class Interrupted:
    """A session's adapter between whose reading and writing others write."""

    def __init__(self, adapter: Adapter, between: Callable[[], None]) -> None:
        self._adapter = adapter
        self._between = between
        self.puts = 0
        self.gets: list[str] = []

    def get(self, path: str, **kwargs: Any) -> Any:
        self.gets.append(path)
        return self._adapter.get(path, **kwargs)

    def put(self, path: str, **kwargs: Any) -> Any:
        if path.startswith("/resource_providers"):
            self.puts += 1
            self._between()
        return self._adapter.put(path, **kwargs)


def test_a_generation_that_went_on_is_read_again_with_what_the_other_wrote(world: World) -> None:
    host = world.provider()
    world.report(host)
    left = ["HW_CPU_X86_AVX2", "HW_CPU_X86_AVX"]

    def nova_compute() -> None:
        if left:
            world.set_traits(host, *world.traits_of(host), left.pop(), MEMORY)

    adapter = Interrupted(adapter_of(world.api.endpoint_override, MICROVERSION), nova_compute)
    world.scheduler(adapter).bring_up_to_date()
    assert adapter.puts == 3
    assert world.traits_of(host) == PLAIN | {"HW_CPU_X86_AVX2", "HW_CPU_X86_AVX"}


def test_a_host_that_others_write_all_the_time_costs_the_others_nothing(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    busy, calm = sorted([world.provider(), world.provider()])
    for host in (busy, calm):
        world.report(host)
    foreign = itertools.cycle(["HW_CPU_X86_AVX2", "HW_CPU_X86_AVX"])
    adapter = Interrupted(
        adapter_of(world.api.endpoint_override, MICROVERSION),
        lambda: world.set_traits(busy, next(foreign)),
    )
    world.scheduler(adapter).bring_up_to_date()
    assert not world.traits_of(busy) & OURS
    assert world.traits_of(calm) == PLAIN
    assert "not set until next time" in caplog.text


def test_two_vp_schedulers_write_once(world: World) -> None:
    host = world.provider()
    world.report(host)
    other = world.scheduler()
    generation = world.generation(host)
    for one in (world.traits, other, world.traits):
        one.bring_up_to_date()
    assert world.traits_of(host) == PLAIN
    assert world.generation(host) == generation + 1


def test_a_host_that_nova_does_not_have_is_named_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    host = world.provider()
    world.report("nowhere")
    world.report(host)
    for _ in range(3):
        world.bring_up_to_date()
    assert caplog.text.count("no provider named nowhere") == 1
    assert world.traits_of(host) == PLAIN


@contextmanager
def running(trait_sync: TraitSync) -> Iterator[None]:
    trait_sync.start()
    try:
        yield
    finally:
        trait_sync.close()


def test_it_goes_on_when_database_and_placement_come_back(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "vp_scheduler")
    host = world.provider()
    world.report(host)
    world.reports.fault = db_exception.DBConnectionError(OSError("gone"))
    away = [exceptions.ConnectFailure("gone")]

    class Away(Interrupted):
        def get(self, path: str, **kwargs: Any) -> Any:
            if away:
                raise away[0]
            return super().get(path, **kwargs)

    adapter = Away(adapter_of(world.api.endpoint_override, MICROVERSION), lambda: None)
    with running(world.scheduler(adapter)):
        wait_until(lambda: "trying again" in caplog.text, "Placement to be missed")
        away.clear()
        wait_until(lambda: adapter.gets, "Placement to be asked while the database is away")
        world.reports.fault = None
        wait_until(lambda: world.traits_of(host) == PLAIN, "the traits")
        wait_until(lambda: "kept again" in caplog.text, "the news")
    assert caplog.text.count("cannot keep the hosts' traits") == 1


def test_many_new_hosts_are_found_with_one_request(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trait_sync, "FEW", 2)
    hosts = [world.provider() for _ in range(3)]
    for host in (*hosts, "nowhere"):
        world.report(host)
    asked = Interrupted(adapter_of(world.api.endpoint_override, MICROVERSION), lambda: None)
    world.scheduler(asked).bring_up_to_date()
    assert [world.traits_of(host) for host in hosts] == [PLAIN] * 3
    assert asked.gets.count("/resource_providers") == len(OURS) + 1


def test_a_large_cloud_is_written_by_and_by(world: World, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    scheduler = world.scheduler(writes_per_s=60.0)  # times an interval of 0.05 s: 3 at a time
    names = [world.provider() for _ in range(7)]
    for name in names:
        world.report(name)
    written = []
    for _ in range(3):
        scheduler.bring_up_to_date()
        written.append(sum(world.traits_of(name) == PLAIN for name in names))
    assert written == [3, 6, 7]
    told = [r.getMessage() for r in caplog.records if "traits differ" in r.getMessage()]
    assert told == [f"{left} hosts' traits differ: 3 of them are set now" for left in (7, 4)]


def test_flavors_can_require_each_of_them(world: World) -> None:
    """Placement itself answers for `trait:CUSTOM_VP_ENFORCE=required`."""
    quiet, acting = world.provider(), world.provider()
    world.report(quiet)
    world.report(acting, mode="enforce", knobs=["memory", "partition"])
    world.bring_up_to_date()
    for trait in OURS:
        answer = world.api.get("/resource_providers", params={"required": trait}).json()
        names = {one["name"] for one in answer["resource_providers"]}
        assert acting in names
        assert (quiet in names) == (trait in PLAIN)


def test_it_is_off_without_an_identity_or_an_interval(tmp_path: Path) -> None:
    conf = cfg.ConfigOpts()
    options.register_all(conf)
    conf([], project="nova-vp", default_config_files=[])
    assert open_traits(conf, Reports()) is None
    conf.set_override("auth_type", "password", "cloud")
    conf.set_override("traits_interval_s", 0.0, "vp_scheduler")
    assert open_traits(conf, Reports()) is None
