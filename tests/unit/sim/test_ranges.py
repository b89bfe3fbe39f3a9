# SPDX-License-Identifier: Apache-2.0
"""Whatever a mix's file may say can be computed with, at the ends of every range too."""

import contextlib
import json
import math
from pathlib import Path
from random import Random

import pytest

from vp_sim.app_profiles import ROWS
from vp_sim.host import SimHost
from vp_sim.mixfile import BadMix, read_mix
from vp_sim.mixschema import SCHEMA
from vp_sim.policies import find
from vp_sim.run import simulate, world_of

MIXES = 20
SECONDS = 35.0
"""Some more than the slowest of the policies waits before it acts."""
POLICIES = ("merlin", "llc")
MACHINE = SCHEMA["properties"]["machine"]["properties"]
APPLICATION = SCHEMA["properties"]["applications"]["items"]["properties"]


class Enough(Exception):
    """It ran for as long as is asked."""


def some(random: Random, ranges, often: float):
    """Figures of these, mostly at an end of their range."""
    return {
        name: random.choice(
            [one["minimum"], one["maximum"], random.uniform(one["minimum"], one["maximum"])]
        )
        for name, one in ranges.items()
        if one.get("type") == "number" and random.random() < often
    }


def a_file(random: Random):
    shape = {
        "nodes": random.choice([1, 2, 4]),
        "domains_per_node": random.choice([1, 2]),
        "cores_per_domain": random.choice([1, 4, 8]),
        "private": random.choice(["l1", "l2"]),
    }
    applications = [an_application(random, number) for number in range(random.randint(1, 4))]
    return {"machine": {**shape, **some(random, MACHINE, 0.3)}, "applications": applications}


def an_application(random: Random, number: int):
    figures = some(random, APPLICATION, 0.4)
    if figures.keys() & {"least_ratio", "full_ratio"}:
        ratios = sorted(
            figures.get(name, random.random()) for name in ("least_ratio", "full_ratio")
        )
        figures["least_ratio"], figures["full_ratio"] = ratios
    return {
        "app": random.choice(sorted(ROWS)),
        "name": f"app{number}",
        "vcpus": random.choice([1, 2]),
        "guests": random.choice([1, 3]),
        **figures,
        "memory_mib": random.choice([1, 100, 4000]),
    }


def watch(host: SimHost) -> None:
    assert all(
        math.isfinite(rate) and rate >= 0 for speed in host.speeds.values() for rate in speed
    )
    if host.now_s >= SECONDS:
        raise Enough


@pytest.mark.needs_controllers("initial_placement", "merlin", "rebalance", "vp")
@pytest.mark.parametrize("policy", POLICIES)
def test_every_mix_within_the_ranges_can_be_run(policy, tmp_path):
    create, path = find((policy,))[policy], tmp_path / "mix.json"
    seconds = [run(path, Random(seed), create) for seed in range(MIXES)]
    assert sum(one >= SECONDS for one in seconds) > MIXES / 2


NO_MISSES = "{app: mcf, full_ratio: 0, least_ratio: 0}"
TINY = "llc_mib: 0.1, llc_cycles: 1, local_ns: 1, remote_ns: 1, clock_ghz: 20"
FAST = "base_cpi: 0.05, l1_mpki: 1000, l2_mpki: 1000, full_ratio: 1, hit_exposure: 0"


def test_a_policy_leaves_memory_where_there_is_no_room(tmp_path):
    """Each node holds two of them, and nobody's memory beside those."""
    path = tmp_path / "mix.yaml"
    apps = ", ".join(
        f"{{app: {app}, name: {app}{number}, vcpus: 4, guests: 1, memory_mib: 900}}"
        for number, app in enumerate(("stream", "lbm", "stream", "lbm"))
    )
    machine = "{nodes: 2, cores_per_domain: 8, node_mib: 2000}"
    path.write_text(f"{{machine: {machine}, memory: local, applications: [{apps}]}}")
    with pytest.raises(Enough):
        simulate(world_of(read_mix(path)), find(("llc",))["llc"], 0, watch)


@pytest.mark.needs_controllers("initial_placement", "rebalance", "vp")
@pytest.mark.parametrize(
    "text",
    [
        f"applications: [{NO_MISSES}, {{app: stream}}]",
        "{machine: {private: l1, llc_cycles: 1000},"
        " applications: [{app: mcf, count: 2, l1_mpki: 0, hit_exposure: 1}]}",
        f"{{machine: {{{TINY}}}, applications: [{{app: mcf, count: 2, {FAST}}}]}}",
    ],
)
def test_what_is_odd_can_be_run(text, tmp_path):
    path = tmp_path / "mix.yaml"
    path.write_text(text)
    with pytest.raises(Enough):
        simulate(world_of(read_mix(path)), find(("vp",))["vp"], 0, watch)


def run(path: Path, random: Random, create) -> float:
    """How long it ran: a machine may be too small for what was drawn, or a job soon done."""
    path.write_text(json.dumps(a_file(random)))
    seconds = [0.0]

    def watched(host: SimHost) -> None:
        seconds.append(host.now_s)
        watch(host)

    with contextlib.suppress(BadMix, Enough):
        simulate(world_of(read_mix(path)), create, 0, watched)
    return seconds[-1]
