# SPDX-License-Identifier: Apache-2.0
"""Overlays of real guests on modelled CPUs: the experiments of inTune (thesis 2013, 4.5).

`python -m tests.bench.overlay --lab --json`; `--part` runs one of them, each in less than ten
minutes. The real agent runs with the controller `overlays` alone and is called by its socket.

`cap`: two islands of three CPUs with a server of four vCPUs each, a cap of five cores for the host.
The servers compute and rest, partly at the same time. Islands that lend nothing, islands that lend
and are called, and all CPUs as one pool with the best static limits of a sweep that hold the cap.

`barrier`: two islands of two CPUs, in each a server of an application that has a barrier in every
round, and a neighbour that computes all the time. Without calls, with `trigger` of all, and with
static weights: the best ones cost the neighbours no more than a trigger may. Between rounds the
application rests; in `busy-barrier` it computes then, which nobody waits for.

`last`: a web server and a word count on an island of one CPU each, and an island of four that
rests. Both borrow one CPU, then both call for the last one at once, the word count first.
"""

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from statistics import fmean
from typing import Any

from nova_vp.core.types.overlay import ArbitrationClass
from testbed.lab.lag_meter import MAX_RATIO
from testbed.lab.waiting import wait_for
from tests.bench.harness import Benchmark, Numbers, fixed, progress
from tests.bench.overlay_guests import (
    Application,
    Client,
    Loans,
    Meter,
    Told,
    a_host,
    an_agent_of,
    an_overlay,
    in_parallel,
    layout_of,
    limit,
    load_average,
    mean_and_deviation,
    place,
    uuid_of,
    weigh,
)
from tests.bench.paced_guests import PacedHost

CAP_CORES = 5.0
CAP_ISLANDS = {"left": (0, 1, 2), "right": (3, 4, 5)}
SETTLE_S = 4.0
"""Nobody holds any more what was lent in the run before."""
APPLICATIONS = (
    Application("left", wait_s=SETTLE_S, core_s=8.0, jobs=2, rest_s=9.0),
    Application("right", wait_s=SETTLE_S + 5.0, core_s=8.0, jobs=2, rest_s=9.0),
)
BORROWED_CPUS = 2
REPEATS = 3
LIMITS = ((2.5, 2.5), (3.0, 2.0), (2.0, 3.0))
"""Of the two in cores. Only those that add up to the cap hold it."""
READING_RATIO = 0.01
"""Two readings of counters may be so far off their moments."""

BARRIER_ISLANDS = {"one": (0, 1), "two": (2, 3)}
RANKS, NEIGHBOURS = ("rank-1", "rank-2"), ("beside-1", "beside-2")
ROUNDS, ROUND_S, ROUND_CORE_S, TRIGGER_S = 12, 4.0, 0.3, 0.6
RESTING, BUSY = "jobs+jobs", "jobs+jobs+compute+compute"
WEIGHTS = (1.05, 2.0, 8.0)

LAST_ISLANDS = {"idle": (0, 1, 2, 3), "words": (4,), "web": (5,)}
LAST_WORKS = {
    "idle": "idle",
    "words": "compute+compute+compute",
    "web": "server:16+server:16+server:16",
}
STEADY_S, AGAIN_S, AGAIN_WITHIN_S = 8.0, 0.5, 15.0
LEAST_GAIN, LEAST_GAIN_OF_STATIC, MOST_LOSS = -0.1, -0.05, 0.04


def run_applications(
    host: PacedHost, clients: Mapping[str, Client], told: Mapping[str, Told]
) -> tuple[list[float], Meter, Loans]:
    """`told`: who calls; empty: nobody."""

    def task(one: Application) -> float:
        caller, uuid = told.get(one.name), uuid_of(host, one.name)
        nacks: list[str] = []

        def ask() -> None:
            if caller:
                nacks.append(caller.call("borrow", uuid, cpus=BORROWED_CPUS, lease_s=30.0))

        def give_back() -> None:
            if caller:
                nacks.append(caller.call("release", uuid))

        took_s = one.run(clients[one.name], ask, give_back)
        if any(nacks):
            progress(f"{one.name} was refused: {', '.join(filter(None, nacks))}")
        return took_s

    names = [one.name for one in APPLICATIONS]
    with Meter(host, names).running() as meter, Loans(host).running() as loans:
        times = in_parallel(*(partial(task, one) for one in APPLICATIONS))
    return times, meter, loans


def cap_row(runs: Sequence[tuple[list[float], Meter, Loans]]) -> dict[str, float]:
    means = [sum(times) / len(times) for times, _, _ in runs]
    mean_s, deviation = mean_and_deviation(means)
    return {
        "completion_s": mean_s,
        "deviation_ratio": deviation,
        "most_cores_of_2_s": max(meter.most_cores for _, meter, _ in runs),
        "cpus_borrowed_by_calls": fmean(loans.by_calls for _, _, loans in runs),
        "cpus_borrowed_for_the_cap": fmean(loans.for_the_cap for _, _, loans in runs),
        "debt_ratio": max(meter.debt_ratio for _, meter, _ in runs),
    }


def measure_cap() -> dict[str, Any]:
    names = [one.name for one in APPLICATIONS]
    works = dict.fromkeys(names, "jobs+jobs+jobs+jobs")
    found: dict[str, Any] = {}
    with a_host(works, CAP_ISLANDS, dict(zip(names, CAP_ISLANDS, strict=True))) as host:
        clients = {name: Client(host, name) for name in names}
        overlays = [an_overlay(n, name, [uuid_of(host, name)]) for n, name in enumerate(names)]
        alone = layout_of(CAP_ISLANDS, CAP_CORES / len(CAP_ISLANDS))
        with an_agent_of(host, overlays, alone):
            found["islands"] = _note(host, clients, {}, "islands", REPEATS)
        with an_agent_of(host, overlays, layout_of(CAP_ISLANDS), CAP_CORES) as callers:
            by_name = dict(zip(names, callers, strict=True))
            found["borrowing"] = _note(host, clients, by_name, "borrowing", REPEATS)
        pool = [cpu for cpus in CAP_ISLANDS.values() for cpu in cpus]
        for name in names:
            place(host, name, pool)
        static = {}
        for limits in (*LIMITS, (None, None)):
            for name, cores in zip(names, limits, strict=True):
                limit(host, name, cores)
            case = " and ".join("all" if one is None else f"{one:g}" for one in limits)
            static[case] = _note(host, clients, {}, f"static limits {case}", 1)
    best = best_of(static)
    return {**found, "static": static, "best_static": {"limits": best, **static[best]}}


def best_of(static: Mapping[str, Mapping[str, float]]) -> str:
    """The quickest that holds the cap."""
    most = CAP_CORES * (1 + READING_RATIO)
    holding = [one for one, row in static.items() if row["most_cores_of_2_s"] <= most]
    return min(holding or static, key=lambda one: static[one]["completion_s"])


def _note(
    host: PacedHost,
    clients: Mapping[str, Client],
    told: Mapping[str, Told],
    case: str,
    times: int,
) -> dict[str, float]:
    row = cap_row([run_applications(host, clients, told) for _ in range(times)])
    progress(f"{case}: {row}, load {load_average():.1f}")
    return row


def measure_barrier(work: str) -> dict[str, Any]:
    works = {**dict.fromkeys(RANKS, work), **dict.fromkeys(NEIGHBOURS, "compute+compute")}
    homes = {
        name: island
        for names in (RANKS, NEIGHBOURS)
        for name, island in zip(names, BARRIER_ISLANDS, strict=True)
    }
    found: dict[str, Any] = {"static": {}}
    with a_host(works, BARRIER_ISLANDS, homes) as host:
        clients = [Client(host, name) for name in RANKS]
        overlay = an_overlay(0, "ranks", [uuid_of(host, name) for name in RANKS])
        with an_agent_of(host, [overlay], layout_of(BARRIER_ISLANDS)) as [caller]:
            found["no_calls"] = _rounds(host, clients, None)
            progress(f"no calls: {found['no_calls']}, load {load_average():.1f}")
            found["trigger"] = _rounds(host, clients, caller)
            progress(f"trigger: {found['trigger']}, load {load_average():.1f}")
        for times in WEIGHTS:
            for name in RANKS:
                weigh(host, name, times)
            row = found["static"][f"{times:g}"] = _rounds(host, clients, None)
            progress(f"static weight {times:g}: {row}, load {load_average():.1f}")
    return found


def _rounds(host: PacedHost, clients: Sequence[Client], caller: Told | None) -> dict[str, Any]:
    """One round in every few seconds, so that the neighbours run as long beside as many rounds."""
    times: list[float] = []
    nacks: Counter[str] = Counter()
    with Meter(host, (*RANKS, *NEIGHBOURS)).running() as meter:
        for _ in range(ROUNDS):
            began_s = time.monotonic()
            if caller:
                nacks[caller.call("trigger", lease_s=TRIGGER_S) or "granted"] += 1
            for one in clients:
                one.begin(ROUND_CORE_S)
            for one in clients:
                one.wait()
            times.append(time.monotonic() - began_s)
            if caller:
                caller.call("release")
            time.sleep(max(0.0, ROUND_S - (time.monotonic() - began_s)))
    mean_s, deviation = mean_and_deviation(times)
    return {
        "barrier_s": mean_s,
        "deviation_ratio": deviation,
        "neighbours_cores": sum(map(meter.cores, NEIGHBOURS)),
        "triggers": dict(nacks),
        "debt_ratio": meter.debt_ratio,
    }


def measure_last() -> dict[str, Any]:
    with a_host(LAST_WORKS, LAST_ISLANDS, {name: name for name in LAST_WORKS}) as host:
        found = {}
        for arbitration in ArbitrationClass:
            found[arbitration.value] = row = last_cpu(host, arbitration)
            progress(f"the last CPU by {arbitration.value}: {row}, load {load_average():.1f}")
        return found


def last_cpu(host: PacedHost, arbitration: ArbitrationClass) -> dict[str, float]:
    uuids = {name: uuid_of(host, name) for name in ("words", "web")}
    overlays = [
        an_overlay(number, name, [uuid], priority=number, arbitration=arbitration)
        for number, (name, uuid) in enumerate(uuids.items(), 1)
    ]
    with an_agent_of(host, overlays, layout_of(LAST_ISLANDS)) as [words, web]:
        callers = {"words": words, "web": web}
        before = _work(host)
        for name, caller in callers.items():
            _wait_until_granted(caller, name, uuids[name])
        one_more = _work(host)
        for name, caller in callers.items():
            caller.send("borrow", uuids[name], cpus=1)
        nacks = {name: caller.answer() for name, caller in callers.items()}
        progress(f"the last CPU, at once: {nacks}")
        began_s = time.monotonic()
        if nacks["web"] and arbitration is ArbitrationClass.PRIORITY:
            _wait_until_granted(web, "web", uuids["web"])
            nacks = {"web": "", "words": words.call("borrow", uuids["words"], cpus=1)}
        took_s = time.monotonic() - began_s
        last = _work(host)
        for caller in callers.values():
            caller.call("release")
    return {
        "web_got_it": float(not nacks["web"]),
        "words_got_it": float(not nacks["words"]),
        "after_s": took_s,
        "web_times_of_one": one_more["web"] / before["web"],
        "web_times": last["web"] / before["web"],
        "words_times": last["words"] / before["words"],
        "debt_ratio": max(one["debt_ratio"] for one in (before, one_more, last)),
    }


def _wait_until_granted(caller: Told, name: str, uuid: str) -> None:
    wait_for(
        lambda: not caller.call("borrow", uuid, cpus=1),
        f"{name} to borrow a CPU",
        deadline_s=AGAIN_WITHIN_S,
        interval_s=AGAIN_S,
    )


def _work(host: PacedHost) -> dict[str, float]:
    """Requests or rounds per second of each, from what the guests printed."""
    names = ("words", "web")
    first = {name: host.guests[name].lines() for name in names}
    with Meter(host, names).running() as meter:
        until_s = time.monotonic() + STEADY_S
        while time.monotonic() < until_s:
            for name in names:
                host.guests[name].lines()
            time.sleep(0.05)
    rates = {name: host.guests[name].mean_rate(first[name]) for name in names}
    return {**rates, "debt_ratio": meter.debt_ratio}


PARTS = {
    "cap": measure_cap,
    "barrier": partial(measure_barrier, RESTING),
    "busy-barrier": partial(measure_barrier, BUSY),
    "last": measure_last,
}


def measure(parts: Sequence[str] = tuple(PARTS)) -> dict[str, Any]:
    return {part: PARTS[part]() for part in parts}


def numbers_of(found: Mapping[str, Any]) -> Numbers:
    """Budgets are upper limits."""
    rows = {
        "cap": cap_numbers,
        "barrier": partial(barrier_numbers, "barrier"),
        "busy-barrier": partial(barrier_numbers, "busy_barrier"),
        "last": last_numbers,
    }
    numbers: dict[str, float] = {}
    for part, row in rows.items():
        numbers |= row(found[part]) if part in found else {}
    return {**numbers, "debt_ratio": max(_debts(found), default=0.0)}


def _debts(found: Mapping[str, Any]) -> Iterator[float]:
    for key, value in found.items():
        if isinstance(value, Mapping):
            yield from _debts(value)
        elif key == "debt_ratio":
            yield value


def cap_numbers(found: Mapping[str, Any]) -> Numbers:
    lent, alone, static = (found[one] for one in ("borrowing", "islands", "best_static"))
    over = lent["most_cores_of_2_s"] - CAP_CORES * (1 + READING_RATIO)
    return {
        "completion_change": lent["completion_s"] / alone["completion_s"] - 1.0,
        "completion_change_of_best_static": lent["completion_s"] / static["completion_s"] - 1.0,
        "islands_deviation_ratio": alone["deviation_ratio"],
        "deviation_ratio": lent["deviation_ratio"],
        "cpus_borrowed_by_calls": lent["cpus_borrowed_by_calls"],
        "cpus_borrowed_for_the_cap": lent["cpus_borrowed_for_the_cap"],
        "over_cap_cores": max(over, 0.0),
    }


def barrier_numbers(name: str, found: Mapping[str, Any]) -> Numbers:
    without, triggered = found["no_calls"], found["trigger"]

    def loss(row: Mapping[str, float]) -> float:
        return 1.0 - row["neighbours_cores"] / without["neighbours_cores"]

    static = [row["barrier_s"] for row in found["static"].values() if loss(row) <= MOST_LOSS]
    best_s = min(static, default=without["barrier_s"])
    return {
        f"{name}_change": triggered["barrier_s"] / without["barrier_s"] - 1.0,
        f"{name}_change_of_best_static": triggered["barrier_s"] / best_s - 1.0,
        f"{name}_neighbours_loss": loss(triggered),
        f"{name}_deviation_ratio": triggered["deviation_ratio"],
    }


def last_numbers(found: Mapping[str, Any]) -> Numbers:
    by_priority, in_turn = (found[one.value] for one in ArbitrationClass)
    return {
        "web_times_by_priority": by_priority["web_times"],
        "web_times_in_turn": in_turn["web_times"],
        "wrong_winners": sum(
            (
                by_priority["web_got_it"] != 1.0,
                by_priority["words_got_it"] != 0.0,
                in_turn["web_got_it"] != 0.0,
                in_turn["words_got_it"] != 1.0,
            )
        ),
    }


BUDGETS = {
    "cap": {
        "completion_change": fixed(LEAST_GAIN),
        "completion_change_of_best_static": fixed(LEAST_GAIN_OF_STATIC),
        "over_cap_cores": fixed(0.0),
    },
    "barrier": {
        "barrier_change": fixed(LEAST_GAIN),
        "barrier_neighbours_loss": fixed(MOST_LOSS),
    },
    "busy-barrier": {
        "busy_barrier_change": fixed(LEAST_GAIN),
        "busy_barrier_change_of_best_static": fixed(LEAST_GAIN_OF_STATIC),
        "busy_barrier_neighbours_loss": fixed(MOST_LOSS),
    },
    "last": {"wrong_winners": fixed(0)},
}


def benchmark(parts: Sequence[str]) -> Benchmark:
    return Benchmark(
        name="overlay, lab",
        about="overlays of real guests on modelled CPUs",
        budgets={
            **{name: budget for part in parts for name, budget in BUDGETS[part].items()},
            "debt_ratio": fixed(MAX_RATIO),
        },
        measure=partial(measure, parts),
        numbers_of=numbers_of,
    )
