# SPDX-License-Identifier: Apache-2.0
"""All controllers at once on guests that work, under the software PMU: an hour.

`python -m tests.bench.together --json [--minutes 60]`. Five guests on two modelled CPUs with an LLC
each: a latency-critical server under steps of load, two best-effort ones, of which one has a
pollution permit, one that lives off its cache, and one that becomes its aggressor now and then.
`vp`, `rebalance`, `merlin`, `permits` and `latency` are enabled.

`fights`: changes of one knob of a server that two controllers made within seconds of each other;
caps do not count, since the tightest one holds. `floor_lacking_cores`: what the tightest quota in
libvirt lacked of the floor. `not_undone`: domains whose XML, scheduler parameters or affinity
differ from before once the agent has stopped. `missed_ratio`: seconds in which the target was
missed; `alone_missed_ratio`: the same with nobody beside the server.
"""

import argparse
import resource
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import partial
from itertools import cycle, islice, pairwise
from pathlib import Path
from typing import Any

from testbed.lab.lag_meter import MAX_RATIO
from testbed.lab.waiting import wait_for
from tests.bench.best_effort_lab import (
    BEGIN_DEADLINE_S,
    BEGIN_S,
    LATENCY,
    LC,
    LOAD,
    SOURCE,
    TARGET_MS,
    WORKING_SET_KIB,
    Client,
    Second,
    exporting,
)
from tests.bench.harness import Benchmark, CannotMeasure, Numbers, fixed, progress, run, scaled
from tests.bench.paced_agent import PRODUCT, agent_report, an_agent
from tests.bench.paced_guests import PacedHost
from tests.libvirt_host import missing_for_libvirt

CPUS = 2
PMU = {"cpumap": "0:0;1:1", "nodemap": "0:0;1:0"}
CELLS = "0+1"
LOADS_PER_S = (80, 120, 160, 120, 200, 100)
"""Requests; the flash is from 100 to 200 and from 120 to 200."""
STEPS, ALONE_STEPS, ALONE_STEP_S = 30, 6, 10
"""A guest takes 31 works in a row, of which the first waits."""
MOST_RPS = 400
FLOOR_CORES = 0.01
"""Of a best-effort server with one vCPU."""
LOOK_S = 1.0
ASK_S = 5.0
"""An answer has the last eight actions on each server, and costs the agent up to 2 ms of CPU."""
FIGHT_S = 10.0
LEAST_MET = 0.99
BEST_EFFORT = {"vp:class": "best-effort"}
EXTRA_SPECS = {
    LC: {
        "vp:class": "latency-critical",
        "vp:latency_target_ms": str(TARGET_MS),
        "vp:max_load": str(MOST_RPS),
    },
    "polluter": {**BEST_EFFORT, "vp:llc_permit": "100"},
    "batch": BEST_EFFORT,
    "cached": {},
    "changing": {},
}
CONFIG = """\
latency_sources = {source}
[policy]
controllers = initial_placement, vp, rebalance, merlin, permits, latency
[controller_permits]
rare_misses_per_ms = 20
"""


def works_of(step_s: int) -> dict[str, str]:
    loads = islice(cycle(LOADS_PER_S), STEPS)
    server = (f"server:{WORKING_SET_KIB}/~{load}@{step_s}" for load in loads)
    moods = islice(cycle(("compute", "stream:2048")), STEPS // 4)
    return {
        LC: ",".join((f"idle@until={BEGIN_S}", *server)),
        "polluter": "stream",
        "batch": "compute",
        "cached": "chase:256",
        "changing": ",".join(f"{mood}@{4 * step_s}" for mood in moods),
    }


@dataclass(slots=True)
class Watch:
    """What is seen of the agent and of libvirt while the guests work."""

    host: PacedHost
    looked_s: float = 0.0
    asked_s: float = 0.0
    actions: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    least_cores: float = 1.0

    def look(self) -> None:
        if time.monotonic() - self.looked_s < LOOK_S:
            return
        self.looked_s = time.monotonic()
        if self.looked_s - self.asked_s >= ASK_S:
            self.asked_s = self.looked_s
            self.ask()
        for name, specs in EXTRA_SPECS.items():
            if specs.get("vp:class") == BEST_EFFORT["vp:class"]:
                self.least_cores = min(self.least_cores, self._cores_of(name))

    def ask(self) -> None:
        for vp in agent_report(self.host).get("vps", ()):
            self.actions.update({one["id"]: one for one in vp["actions"]})

    def _cores_of(self, name: str) -> float:
        found = self.host.guests[name].domain.schedulerParameters()
        quota_us, period_us = found["vcpu_quota"], found["vcpu_period"]
        return quota_us / period_us if quota_us > 0 else 1.0


def fights_in(actions: Mapping[str, Mapping[str, Any]]) -> int:
    """Changes of a knob that another controller had turned a moment ago."""
    turned: dict[tuple[str, str], list[tuple[float, str]]] = {}
    for one in sorted(actions.values(), key=lambda action: action["at"]):
        for change in one["changes"]:
            if change["knob"] != "cpu-cap":
                key = change["uuid"], change["knob"]
                turned.setdefault(key, []).append((one["at"], one["controller"]))
    return sum(
        later - earlier < FIGHT_S and first != second
        for changes in turned.values()
        for (earlier, first), (later, second) in pairwise(changes)
    )


def settings_of(host: PacedHost) -> dict[str, tuple[str, ...]]:
    """Of each domain, what a controller could have changed."""
    return {
        name: (
            guest.domain.XMLDesc(0),
            str(guest.domain.schedulerParameters()),
            *(host.shimmed("taskset", "-cp", str(tid)) for tid in guest.tids),
        )
        for name, guest in host.guests.items()
    }


@contextmanager
def a_host(works: Mapping[str, str]) -> Iterator[PacedHost]:
    if missing := missing_for_libvirt():
        raise CannotMeasure(missing)
    with tempfile.TemporaryDirectory(prefix="vp-together-", dir="/dev/shm") as folder:
        host = PacedHost(Path(folder), CELLS, PMU, EXTRA_SPECS, modelled_cpus=CPUS)
        try:
            host.start(works)
            progress(f"{len(works)} guests booted")
            yield host
        finally:
            host.stop()


def measure_alone() -> list[Second]:
    loads = LOADS_PER_S[:ALONE_STEPS]
    server = (f"server:{WORKING_SET_KIB}/~{load}@{ALONE_STEP_S}" for load in loads)
    with a_host({LC: ",".join((f"idle@until={BEGIN_S}", *server))}) as host:
        client = Client(host.folder / f"{LC}.console")
        host.guests[LC].domain.resume()
        wait_for(client.seconds, f"{LC} to begin its load", deadline_s=BEGIN_DEADLINE_S)
        host.measure([LC], ALONE_STEPS * ALONE_STEP_S - 2)
        return client.seconds()


def measure(minutes: float) -> dict[str, Any]:
    alone = measure_alone()
    span_s = round(60 * minutes)
    works = works_of(max(span_s // STEPS, 1))
    with a_host(works) as host:
        client = Client(host.folder / f"{LC}.console")
        watch, before = Watch(host), settings_of(host)
        with exporting(client) as url:
            uuid = host.guests[LC].domain.UUIDString()
            source = SOURCE.format(uuid=uuid, url=url, latency=LATENCY, load=LOAD)
            used_s, began_s = _used_by_children_s(), time.monotonic()
            with an_agent(host, PRODUCT, "enforce", more=CONFIG.format(source=source)):
                for guest in host.guests.values():
                    guest.domain.resume()
                wait_for(client.seconds, f"{LC} to begin its load", deadline_s=BEGIN_DEADLINE_S)
                found = host.measure(tuple(works), span_s, watch.look)
                watch.ask()
            ran_s = time.monotonic() - began_s
            agent_cores = (_used_by_children_s() - used_s) / ran_s
        host.pause()
        after, seconds = settings_of(host), client.seconds()
    return {
        "minutes": minutes,
        "missed_ratio": missed_ratio(seconds),
        "alone_missed_ratio": missed_ratio(alone),
        "fights": fights_in(watch.actions),
        "floor_lacking_cores": max(FLOOR_CORES - watch.least_cores, 0.0),
        "not_undone": sum(before[name] != after[name] for name in works),
        "agent_cores": agent_cores,
        "debt_ratio": max(one.debt_ratio for one in found.values()),
        "actions": sorted(watch.actions.values(), key=lambda action: action["at"]),
        "work": {name: one.rate for name, one in found.items()},
        "seconds": [asdict(one) for one in seconds],
    }


def _used_by_children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def missed_ratio(seconds: list[Second]) -> float:
    return sum(not 0 < one.p95_ms <= TARGET_MS for one in seconds) / max(len(seconds), 1)


def numbers_of(found: Mapping[str, Any]) -> Numbers:
    return {key: value for key, value in found.items() if isinstance(value, int | float)}


def benchmark(minutes: float) -> Benchmark:
    return Benchmark(
        name="together",
        about="all controllers at once on guests that work, under the software PMU; an hour",
        budgets={
            "missed_ratio": fixed(1.0 - LEAST_MET),
            "fights": fixed(0),
            "floor_lacking_cores": fixed(0.0),
            "not_undone": fixed(0),
            "agent_cores": scaled(0.007),
            "debt_ratio": fixed(MAX_RATIO),
        },
        measure=partial(measure, minutes),
        numbers_of=numbers_of,
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.together", description=__doc__)
    parser.add_argument("--json", action="store_true", help="the numbers alone, as JSON")
    parser.add_argument("--minutes", type=float, default=60.0, help="how long all of them run")
    asked = parser.parse_args()
    return run(benchmark(asked.minutes), as_json=asked.json)


if __name__ == "__main__":
    raise SystemExit(main())
