# SPDX-License-Identifier: Apache-2.0
"""What an agent's /metrics says, of a real loop over fake drivers."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.metrics_core import Metric

from nova_vp.core.types.action import Result
from nova_vp.core.types.cpu_time import CpuUse
from nova_vp.core.types.detection import Kind
from nova_vp.core.types.guest import Unmanaged
from nova_vp.core.types.mode_levels import ModeLevel, SetMode
from nova_vp.core.types.overlay import Nack
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.reason import Rejection
from nova_vp.core.types.service_level import ServiceClass
from nova_vp.core.types.usage import Usage
from tests.decisions import (
    a_decision,
    a_detection,
    a_guest,
    a_view,
    an_eventful_view,
    facts,
    uuid_of,
)
from tests.policies import a_policy
from tests.unit.agent_host import World, a_hurt_pair
from tests.unit.core.build import CHASE
from vp_agent.loop.host_mode import NO_TOLD_MODES, HostModes
from vp_agent.loop.latency_reports import Came, KnownReports, Reported
from vp_agent.publish.metrics import ServerCollector, ServersShown, Sources, Tally, registry_of
from vp_agent.publish.usage_series import SERIES

HOST = "compute-17"
LABELS = {
    "fqdn", "resource", "state", "kind", "reason", "result", "mode", "domain", "node", "le",
    "release", "counters", "actuator", "project_id", "percentile", "controller", "figure", "word",
    "answer", "source", "name", "flavor",
}  # fmt: skip
UNITS = (
    "_seconds", "_cores", "_ratio", "_per_second", "_per_instruction", "_per_kilo_instructions",
    "_bytes", "_total", "_info",
)  # fmt: skip
PLAIN = {
    "nova_vp_agent_bus_listening", "nova_vp_agent_bus_up", "nova_vp_agent_mode",
    "nova_vp_counter_problems", "nova_vp_escalations_standing", "nova_vp_memory_moves_running",
    "nova_vp_node_hot", "nova_vp_proposals", "nova_vp_server_hurt", "nova_vp_server_managed",
    "nova_vp_server_figure", "nova_vp_server_figure_word", "nova_vp_server_load",
    "nova_vp_server_state", "nova_vp_servers", "nova_vp_servers_hurt",
    "nova_vp_servers_incomplete", "nova_vp_servers_unmanaged", "nova_vp_servers_with_own_mode",
    "nova_vp_llc_domain_servers_hurt", "nova_vp_victims_over_budget",
    "nova_vp_aggressors_unmanaged",
}  # fmt: skip
"""Counts of things, numbers of states, and truths: they have no unit."""


def sources(decision=None, **about) -> Sources:
    values = {
        "last": lambda: decision,
        "host_info": lambda: facts(HOST),
        "calls": dict,
        "sent_at_s": lambda: None,
        "is_listening": lambda: True,
        "servers_shown": lambda: ServersShown.ALL,
        "is_broker_reachable": lambda: True,
    }
    return Sources(**values | about)


def shown(decision=None, tally=None, **about) -> CollectorRegistry:
    return registry_of(HOST, tally or Tally(), sources(decision, **about))


def ours(registry: CollectorRegistry) -> Iterator[Metric]:
    return (one for one in registry.collect() if not one.name.startswith("process_"))


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path / "state", policy=a_policy(home_on_arrival="never"))
    made.tally = Tally()
    return made


def value(registry, name, /, **labels):
    return registry.get_sample_value(name, {"fqdn": HOST} | labels)


def test_names_end_in_their_unit_and_labels_are_few():
    views = an_eventful_view(2), a_latency_critical_view()
    for metric in ours(shown(a_decision(*views), host_info=lambda: REPORTED)):
        for sample in metric.samples:
            assert sample.labels.keys() <= LABELS, sample
            assert sample.labels["fqdn"] == HOST
            name = sample.name.removesuffix("_bucket").removesuffix("_count").removesuffix("_sum")
            assert name in PLAIN or name.endswith(UNITS), sample.name


def test_a_server_is_known_by_its_uuid_and_one_series_has_its_name():
    guest = a_guest(1, name="canary-name", project_id="canary-project", flavor="canary-flavor")
    told = shown(a_decision(a_view(1)._replace(guest=guest)))
    with_names = [metric.name for metric in ours(told) if "canary" in str(metric)]
    assert with_names == ["nova_vp_server"]
    about = {"name": "canary-name", "project_id": "canary-project", "flavor": "canary-flavor"}
    assert value(told, "nova_vp_server_info", resource=uuid_of(1), **about) == 1
    assert value(told, "nova_vp_server_cycles_per_instruction", resource=uuid_of(1)) == 1.2
    assert value(told, "nova_vp_server_llc_misses_per_kilo_instructions", resource=uuid_of(1)) == 5
    assert value(told, "nova_vp_server_state", resource=uuid_of(1)) == 4


def test_a_server_adds_as_many_series_as_we_say():
    def series(count):
        registry = shown(a_decision(*(a_view(n) for n in range(1, count + 1))))
        return sum(len(metric.samples) for metric in registry.collect())

    assert series(11) - series(1) == 10 * 14


LC = a_guest(
    1,
    service_class=ServiceClass.LATENCY_CRITICAL,
    latency_target_ms=10.0,
    latency_percentile=99.9,
    project_id="shop",
)
LC3 = LC._replace(uuid=uuid_of(3))
TOLD = {"latency": {"ruled_by": "hold", "starve_left_s": 1800.0}}
REPORTED = facts(
    HOST,
    latency=KnownReports(
        {LC.uuid: Reported(8.5, 120.0, 90.0)},
        {LC.uuid: Came(1, 6, {"late": 2, "another-project": 1})},
        {},
    ),
)


def a_latency_critical_view():
    return a_view(1, guest=LC, figures=TOLD)


def told_of_latency(view, host_info=REPORTED, now_s=100.0):
    inner = CollectorRegistry()
    about = sources(a_decision(view), host_info=lambda: host_info)
    inner.register(ServerCollector(about, Tally(), clock=lambda: now_s))

    def told(name, **labels):
        return inner.get_sample_value(f"nova_vp_server_{name}", {"resource": LC.uuid} | labels)

    return told


def test_a_latency_critical_server_tells_how_it_answers():
    told = told_of_latency(a_latency_critical_view())
    assert told("latency_seconds", percentile="99.9") == 0.0085
    assert told("latency_target_seconds", percentile="99.9") == 0.01
    assert told("load") == 120.0
    assert told("latency_report_age_seconds") == 10.0


def test_reports_are_counted_by_what_became_of_them():
    told = told_of_latency(a_latency_critical_view())
    counts = {
        result: told("latency_reports_total", project_id="shop", result=result)
        for result in ("used", "late", "another-project", "not-newer")
    }
    assert counts == {"used": 6, "late": 2, "another-project": 1, "not-newer": None}


def test_what_rules_and_other_figures_of_a_controller_are_told():
    told = told_of_latency(a_latency_critical_view())
    by = {"controller": "latency"}
    assert told("figure_word", **by, figure="ruled_by", word="hold") == 1
    assert told("figure", **by, figure="starve_left_s") == 1800.0


def test_what_nobody_reported_is_a_gap():
    silent = told_of_latency(a_latency_critical_view(), facts(HOST))
    assert silent("latency_target_seconds", percentile="99.9") == 0.01
    assert silent("latency_seconds", percentile="99.9") is None
    known = KnownReports({LC.uuid: Reported(8.5, None, 90.0)}, {}, {})
    told = told_of_latency(a_latency_critical_view(), facts(HOST, latency=known))
    assert told("latency_seconds", percentile="99.9") == 0.0085
    assert told("load") is None
    without = a_view(1, guest=LC._replace(latency_target_ms=None))
    assert told_of_latency(without)("latency_target_seconds", percentile="99.9") is None


def test_figures_of_servers_without_a_class_are_no_series():
    told = told_of_latency(a_view(1, figures=TOLD))
    assert told("figure", controller="latency", figure="starve_left_s") is None


def test_a_latency_critical_server_adds_as_many_series_as_we_say():
    def series(view):
        registry = shown(a_decision(view), host_info=lambda: REPORTED)
        return sum(len(metric.samples) for metric in registry.collect())

    more = series(a_latency_critical_view()) - series(a_view(1))
    reports, figures = 3, 2
    assert more - reports - figures == 4


def billed(number=1, at_s=1000.0, project_id="p1"):
    used = Usage("plain", 1.0, 0.5, 900.0, 4500.0, 4000.0, 0.25)
    guest = a_guest(number, project_id=project_id)
    return a_decision(a_view(number, guest=guest, usage=(used, used)), at_s=at_s)


def test_what_is_billed_is_counted_by_server_and_project():
    tally = Tally()
    told = shown(tally=tally)
    labels = {"resource": uuid_of(1), "project_id": "p1"}
    for _ in range(2):
        tally.decided(billed(), ())
    for name, expected in {
        "permit_booked_seconds": 4.0,
        "over_permit_seconds": 2.0,
        "permitted_llc_misses": 3600.0,
        "charged_llc_misses": 18000.0,
        "cpu_taken_core_seconds": 1.0,
    }.items():
        assert value(told, f"nova_vp_server_{name}_total", **labels) == expected


def test_what_a_server_that_left_used_is_told_for_some_scrapes_more():
    tally = Tally()
    told = shown(tally=tally)
    labels = {"resource": uuid_of(1), "project_id": "p1"}
    tally.decided(billed(1, at_s=1000.0), ())
    tally.decided(billed(2, at_s=1600.0), ())
    name = "nova_vp_server_permit_booked_seconds_total"
    assert value(told, name, **labels) == 2.0
    tally.decided(billed(2, at_s=1601.0), ())
    assert value(told, name, **labels) is None


def test_who_has_no_permit_has_no_counters():
    tally = Tally()
    tally.decided(a_decision(a_view()), ())
    told = shown(a_decision(a_view()), tally)
    assert [m.name for m in ours(told) if "project_id" in str(m)] == ["nova_vp_server"]


def test_who_is_not_measured_has_no_rates():
    told = shown(a_decision(a_view(1, state=None, sample=None)))
    assert value(told, "nova_vp_server_cycles_per_instruction", resource=uuid_of(1)) is None
    assert value(told, "nova_vp_servers", state="unknown") == 1
    assert value(told, "nova_vp_server_hurt", resource=uuid_of(1)) == 0


@pytest.mark.parametrize("kind", Kind)
def test_the_hurt_are_those_whom_a_neighbour_hurts(kind):
    found = replace(a_detection(), kind=kind)
    told = shown(a_decision(a_view(1, detection=found)))
    by_neighbours = kind not in (Kind.REMOTE, Kind.HOST_CPU)
    assert value(told, "nova_vp_server_hurt", resource=uuid_of(1)) == by_neighbours


def test_the_degraded_are_counted_where_they_run():
    found = a_detection()
    others = (found, replace(found, domain_id=1), replace(found, domain_id=1, kind=Kind.REMOTE))
    told = shown(a_decision(detections=others))
    name = "nova_vp_llc_domain_servers_hurt"
    assert [value(told, name, domain=str(n), node="0") for n in (0, 1)] == [1, 1]


def test_victims_over_budget_are_counted_by_why():
    spent = {uuid_of(1): Rejection.VICTIM_BUDGET, uuid_of(2): Rejection.NO_GAIN}
    told = shown(a_decision(over_budget=spent))
    name = "nova_vp_victims_over_budget"
    assert value(told, name, reason="victim-budget-spent") == 1
    assert value(told, name, reason="project-budget-spent") == 0
    assert value(told, name, reason="victim-gained-nothing") == 1


def test_aggressors_that_are_left_alone_are_counted_by_why():
    guests = [a_view(n).guest._replace(unmanaged=Unmanaged.NUMA_TOPOLOGY) for n in (2, 3)]
    views = [a_view(guest=guest) for guest in guests]
    told = shown(a_decision(*views, detections=(a_detection(), a_detection())))
    name = "nova_vp_aggressors_unmanaged"
    assert value(told, name, reason="numa-topology") == 1, "the other one degrades nobody"
    assert value(told, name, reason="exempt") == 0


def test_the_mode_is_told_with_the_level_that_it_is_set_on():
    levels = (
        SetMode(Mode.ENFORCE, ModeLevel.CLOUD),
        SetMode(Mode.ADVISE, ModeLevel.AGGREGATE, "canary"),
    )
    modes = HostModes(NO_TOLD_MODES, levels, True)
    decision = a_decision(a_view(1, guest=a_guest(1, mode=Mode.OBSERVE)), mode=Mode.ADVISE)
    told = shown(decision, host_info=lambda: facts(HOST, modes=modes))
    assert value(told, "nova_vp_agent_mode", mode="advise", source="aggregate") == 1
    assert value(told, "nova_vp_agent_mode", mode="enforce", source="") == 0
    assert value(told, "nova_vp_servers_with_own_mode", mode="observe") == 1
    assert value(told, "nova_vp_servers_with_own_mode", mode="advise") == 0


def degraded(number=1, at_s=10.0, kind=Kind.CACHE):
    found = replace(a_detection(), victim_uuid=uuid_of(number), kind=kind)
    return a_decision(a_view(1), a_view(2), at_s=at_s, detections=(found,))


def seconds(registry, number=1):
    return value(registry, "nova_vp_server_degraded_seconds_total", resource=uuid_of(number))


def test_the_time_in_which_a_server_is_degraded_is_counted():
    tally = Tally()
    told = shown(a_decision(a_view(1), a_view(2)), tally)
    counted = []
    for decision in (degraded(at_s=1.0), degraded(at_s=3.0), a_decision(at_s=4.0)):
        tally.decided(decision, ())
        counted.append(seconds(told))
    assert counted == [0.0, 2.0, 2.0]
    for at_s in (7.0, 7.5):
        tally.decided(degraded(at_s=at_s), ())
    assert (seconds(told, 1), seconds(told, 2)) == (2.5, 0.0)


@pytest.mark.parametrize("kind", [Kind.REMOTE, Kind.HOST_CPU])
def test_time_that_no_neighbour_costs_is_not_counted(kind):
    tally = Tally()
    for at_s in (1.0, 2.0):
        tally.decided(degraded(at_s=at_s, kind=kind), ())
    assert seconds(shown(a_decision(a_view(1)), tally)) == 0.0


def test_how_long_a_server_that_left_was_degraded_is_told_for_some_scrapes_more():
    tally = Tally()
    told = shown(a_decision(a_view(2)), tally)
    for at_s in (1.0, 3.0):
        tally.decided(degraded(at_s=at_s), ())
    tally.decided(a_decision(a_view(2), at_s=603.0), ())
    assert seconds(told) == 2.0
    tally.decided(a_decision(a_view(2), at_s=604.0), ())
    assert seconds(told) is None


def resources(registry, *but):
    return {
        sample.labels["resource"]
        for metric in registry.collect()
        if metric.name not in but
        for sample in metric.samples
        if "resource" in sample.labels
    }


BILLED = {f"nova_vp_server_{name}" for name in SERIES}


@pytest.mark.parametrize(
    ("shown_servers", "expected", "billed_too"),
    [
        (ServersShown.ALL, {1, 2, 3}, {1, 2, 3}),
        (ServersShown.DEGRADED, {1}, {1, 3}),
        (ServersShown.NONE, set(), set()),
    ],
)
def test_the_operator_chooses_which_servers_have_series(shown_servers, expected, billed_too):
    tally = Tally()
    tally.decided(billed(3, at_s=1.0), ())
    tally.decided(degraded(1, at_s=2.0), ())
    now = a_decision(a_view(1), a_view(2), a_latency_critical_view()._replace(guest=LC3))
    told = shown(now, tally, servers_shown=lambda: shown_servers)
    assert resources(told, *BILLED) == {uuid_of(number) for number in expected}
    assert resources(told) == {uuid_of(number) for number in billed_too}
    assert value(told, "nova_vp_servers", state="4") == 3, "of the host, as ever"


def test_who_was_degraded_is_shown_for_ten_minutes_more():
    tally = Tally()
    told = shown(a_decision(), tally, servers_shown=lambda: ServersShown.DEGRADED)
    tally.decided(degraded(1, at_s=2.0), ())
    name = "nova_vp_server_state"
    for at_s, expected in ((602.0, 4), (603.0, None)):
        tally.decided(a_decision(at_s=at_s), ())
        assert value(told, name, resource=uuid_of(1)) == expected
    assert value(told, name, resource=uuid_of(2)) is None


def test_before_the_first_tick_there_is_something_to_see():
    told = shown(None, is_listening=lambda: False, is_broker_reachable=lambda: False)
    assert value(told, "nova_vp_agent_bus_up") == 0
    assert value(told, "nova_vp_agent_bus_listening") == 0
    assert value(told, "nova_vp_agent_ticks_total", result="done") == 0


def test_a_transport_without_a_broker_is_neither_up_nor_down():
    assert value(shown(is_broker_reachable=lambda: None), "nova_vp_agent_bus_up") is None


@pytest.mark.needs_controllers("vp")
def test_a_rescue_is_counted_from_detection_to_mended(world):
    world.start_agent()
    victim, _ = a_hurt_pair(world)
    registry = registry_of(HOST, world.tally, sources(last=lambda: world.control.last()))
    world.tick(3)
    assert value(registry, "nova_vp_server_hurt", resource=victim) == 1
    assert value(registry, "nova_vp_detections_total", kind=Kind.CACHE.value) == 1
    why = "move-aggressor"
    assert value(registry, "nova_vp_actions_total", reason=why, result=Result.APPLIED.value) == 1
    world.rates[victim] = CHASE
    world.tick(12)
    assert value(registry, "nova_vp_actions_total", reason=why, result=Result.MENDED.value) == 1
    assert value(registry, "nova_vp_detections_total", kind=Kind.CACHE.value) == 1
    assert value(registry, "nova_vp_servers_hurt", kind=Kind.CACHE.value) == 0
    assert value(registry, "nova_vp_agent_mode", mode="enforce", source="default") == 1


def test_calls_are_counted_by_their_answer_from_zero_on():
    registry = shown(calls=lambda: {None: 3, Nack.NO_ROOM: 2})
    assert value(registry, "nova_vp_overlay_calls_total", answer="granted") == 3
    assert value(registry, "nova_vp_overlay_calls_total", answer="no-room") == 2
    assert value(registry, "nova_vp_overlay_calls_total", answer="too-many-calls") == 0


def test_ticks_are_counted_by_whether_libvirt_answered(world):
    class Stop:
        """Ends the loop after three rounds, the second without libvirt."""

        rounds = 0

        def is_set(self):
            self.rounds += 1
            world.host.is_up = self.rounds != 2
            return self.rounds > 3

    agent = world.start_agent()
    agent.run(Stop(), 0.0, lambda: None, lambda: None)
    registry = registry_of(HOST, world.tally, sources())
    assert value(registry, "nova_vp_agent_ticks_total", result="done") == 2
    assert value(registry, "nova_vp_agent_ticks_total", result="libvirt-away") == 1
    assert value(registry, "nova_vp_agent_tick_seconds_count") == 2


def test_waiting_throttling_and_steal_are_shown_where_they_are_known():
    use = CpuUse(
        at_s=9.0,
        samples=3,
        ran_cores=0.5,
        run_delay_cores=0.5,
        throttled_ours_cores=0.1,
        throttled_nova_cores=0.275,
    )
    decision = a_decision(a_view(1, cpu_use=use, sample=None), a_view(2), steal_ratio=0.25)
    registry = shown(decision)
    names = ("waiting", "throttled_ours", "throttled_nova")
    for number, expected in ((1, (0.2, 0.1, 0.275)), (2, (None, None, None))):
        seen = [
            value(registry, f"nova_vp_server_cpu_{name}_ratio", resource=uuid_of(number))
            for name in names
        ]
        assert seen == [one if one is None else pytest.approx(one) for one in expected]
    assert value(registry, "nova_vp_host_cpu_steal_ratio") == 0.25
    assert value(shown(a_decision()), "nova_vp_host_cpu_steal_ratio") is None
