# SPDX-License-Identifier: Apache-2.0
"""The machine and the applications of the Kyoto paper (2016) that are not in the thesis's table.

One VM of one vCPU each. `kyoto` figures are printed in the paper; the others are public, or
estimated from public characterisations of SPEC CPU2006 as those in `app_profiles.py` are. The paper
prints in which order the ten applications miss when each runs alone (4.2), by LLC misses and by
equation 1: where the characterisations leave room, a figure is such that both orders come out. No
figure was chosen by the outcome of a mix.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vp_sim.apps import Row
from vp_sim.machine import WESTMERE, Shape
from vp_sim.parameters import Parameter, estimated, public

_HIT = estimated(0.35, 0.25, 0.45, "out-of-order cores hide most of an L3 hit")
_ALWAYS = estimated(0.99, 0.98, 1.0, "SPEC computes all the time")
_MEMORY = estimated(450, 300, 500, "16 VMs share 8096 MB (table 1)")
_CURVES = "public miss curves of SPEC CPU2006"
_MISSES = "public characterisations of SPEC CPU2006"
_ALONE = "4.2: its place among the ten when each runs alone"


def _kyoto(value: float, place: str) -> Parameter:
    return Parameter(value, f"kyoto: {place}", value, value)


KYOTO_SHAPE = Shape(nodes=1, domains_per_node=1, cores_per_domain=4)
"""Table 1: one socket of four cores."""
KYOTO_HARDWARE = replace(
    WESTMERE,
    clock_ghz=_kyoto(2.8, "2.2.1: Xeon E5-1603 v3, 2.8 GHz"),
    llc_mib=_kyoto(10, "table 1: 10 MB"),
    llc_cycles=_kyoto(45, "2.2.4: 45 cycles for LLC"),
    node_mib=_kyoto(8096, "table 1: 8096 MB"),
    local_ns=_kyoto(64, "2.2.4: 180 cycles for the main memory"),
    node_gbps=public(51, "Xeon E5-1603 v3 datasheet: four channels of DDR4-1600"),
)

ASTAR = Row(
    name="astar",
    vcpus=1,
    guests=1,
    memory_mib=_MEMORY,
    footprint_mib=estimated(200, 100, 330, _MISSES),
    base_cpi=estimated(1.1, 0.9, 1.3, "branches"),
    l1_mpki=estimated(20, 15, 25, _MISSES),
    l2_mpki=estimated(10, 7, 14, _MISSES),
    full_ratio=estimated(0.8, 0.7, 0.9, _CURVES),
    least_ratio=estimated(0.1, 0.05, 0.15, _CURVES),
    half_mib=estimated(1.5, 1.0, 2.0, _CURVES),
    steepness=estimated(1.5, 1.2, 2.0, _CURVES),
    hit_exposure=_HIT,
    parallel_misses=estimated(1.8, 1.4, 2.2, "dependent loads"),
    writeback_ratio=estimated(0.25, 0.15, 0.35, _MISSES),
    busy_ratio=_ALWAYS,
)

BLOCKIE = Row(
    name="blockie",
    vcpus=1,
    guests=1,
    memory_mib=_MEMORY,
    footprint_mib=estimated(300, 100, 450, "Mars and Soffa 2009: blocks larger than the LLC"),
    base_cpi=estimated(0.6, 0.5, 0.8, "simple loops"),
    l1_mpki=estimated(22, 18, 28, "blocks: several accesses to each line"),
    l2_mpki=estimated(16, 12, 18, _ALONE),
    full_ratio=estimated(1.0, 0.95, 1.0, "blocks larger than the LLC"),
    least_ratio=estimated(0.85, 0.75, 0.95, "blocks larger than the LLC"),
    half_mib=estimated(12, 8, 16, "nearly without effect"),
    steepness=estimated(1, 1, 1, "nearly without effect"),
    hit_exposure=_HIT,
    parallel_misses=estimated(6, 5, 8, "independent accesses within a block"),
    writeback_ratio=estimated(0.5, 0.3, 0.6, "blocks are read and written"),
    busy_ratio=_ALWAYS,
)

BZIP = Row(
    name="bzip",
    vcpus=1,
    guests=1,
    memory_mib=_MEMORY,
    footprint_mib=estimated(300, 100, 450, "SPEC CPU2006: up to 850 MB, most of it input"),
    base_cpi=estimated(0.8, 0.7, 1.0, "branches"),
    l1_mpki=estimated(14, 10, 18, _MISSES),
    l2_mpki=estimated(6, 4, 8, _MISSES),
    full_ratio=estimated(0.7, 0.6, 0.8, _CURVES),
    least_ratio=estimated(0.12, 0.1, 0.15, _ALONE),
    half_mib=estimated(1.5, 1.0, 2.0, _CURVES),
    steepness=estimated(1.5, 1.2, 2.0, _CURVES),
    hit_exposure=_HIT,
    parallel_misses=estimated(2.0, 1.6, 2.5, _MISSES),
    writeback_ratio=estimated(0.4, 0.3, 0.5, _MISSES),
    busy_ratio=_ALWAYS,
)

GCC = Row(
    name="gcc",
    vcpus=1,
    guests=1,
    memory_mib=_MEMORY,
    footprint_mib=estimated(300, 100, 450, "SPEC CPU2006: up to 900 MB, little of it at a time"),
    base_cpi=estimated(0.9, 0.7, 1.1, "branches"),
    l1_mpki=estimated(25, 18, 32, _MISSES),
    l2_mpki=estimated(14, 10, 18, _MISSES),
    full_ratio=estimated(0.8, 0.7, 0.9, _CURVES),
    least_ratio=estimated(0.2, 0.15, 0.25, _ALONE),
    half_mib=estimated(1.5, 1.0, 2.0, _CURVES),
    steepness=estimated(2.0, 1.5, 2.5, _CURVES),
    hit_exposure=_HIT,
    parallel_misses=estimated(2.0, 1.6, 2.5, _MISSES),
    writeback_ratio=estimated(0.4, 0.3, 0.5, _MISSES),
    busy_ratio=_ALWAYS,
)

OMNETPP = Row(
    name="omnetpp",
    vcpus=1,
    guests=1,
    memory_mib=_MEMORY,
    footprint_mib=estimated(150, 100, 180, "SPEC CPU2006: about 170 MB"),
    base_cpi=estimated(1.0, 0.8, 1.2, "events on a heap"),
    l1_mpki=estimated(35, 28, 42, _MISSES),
    l2_mpki=estimated(28, 22, 34, _MISSES),
    full_ratio=estimated(0.9, 0.8, 1.0, _CURVES),
    least_ratio=estimated(0.05, 0.03, 0.08, _ALONE),
    half_mib=estimated(2.2, 1.6, 2.8, _ALONE),
    steepness=estimated(2.2, 1.8, 2.6, _ALONE),
    hit_exposure=_HIT,
    parallel_misses=estimated(1.7, 1.4, 2.0, "dependent loads"),
    writeback_ratio=estimated(0.35, 0.25, 0.45, _MISSES),
    busy_ratio=_ALWAYS,
)

SOPLEX = Row(
    name="soplex",
    vcpus=1,
    guests=1,
    memory_mib=_MEMORY,
    footprint_mib=estimated(400, 250, 440, "SPEC CPU2006: about 440 MB"),
    base_cpi=estimated(1.1, 0.9, 1.3, "sparse matrices"),
    l1_mpki=estimated(45, 38, 52, _MISSES),
    l2_mpki=estimated(34, 28, 40, _MISSES),
    full_ratio=estimated(0.95, 0.9, 1.0, _CURVES),
    least_ratio=estimated(0.45, 0.35, 0.55, _CURVES),
    half_mib=estimated(5.0, 4.0, 6.0, _CURVES),
    steepness=estimated(1.4, 1.2, 1.8, _CURVES),
    hit_exposure=_HIT,
    parallel_misses=estimated(2.8, 2.4, 3.4, _ALONE),
    writeback_ratio=estimated(0.25, 0.15, 0.35, _MISSES),
    busy_ratio=_ALWAYS,
)

XALAN = Row(
    name="xalan",
    vcpus=1,
    guests=1,
    memory_mib=_MEMORY,
    footprint_mib=estimated(350, 200, 420, "SPEC CPU2006: about 420 MB"),
    base_cpi=estimated(0.9, 0.7, 1.1, "virtual calls"),
    l1_mpki=estimated(32, 25, 40, _MISSES),
    l2_mpki=estimated(24, 18, 30, _MISSES),
    full_ratio=estimated(0.6, 0.5, 0.7, _CURVES),
    least_ratio=estimated(0.05, 0.03, 0.08, _CURVES),
    half_mib=estimated(1.5, 1.0, 2.0, _CURVES),
    steepness=estimated(1.8, 1.5, 2.2, _CURVES),
    hit_exposure=_HIT,
    parallel_misses=estimated(1.8, 1.5, 2.2, "dependent loads"),
    writeback_ratio=estimated(0.25, 0.15, 0.35, _MISSES),
    busy_ratio=_ALWAYS,
)

KYOTO_ROWS = (ASTAR, BLOCKIE, BZIP, GCC, OMNETPP, SOPLEX, XALAN)


_HERE: Mapping[str, Mapping[str, Any]] = {
    "lbm": {
        "footprint_mib": public(410, "SPEC CPU2006: 410 MB a copy"),
        "l1_mpki": estimated(38, 30, 45, "public characterisations, L2 of 256 KB"),
        "l2_mpki": estimated(30, 24, 34, _ALONE),
        "base_cpi": estimated(0.7, 0.6, 0.9, "floating point kernels"),
        "parallel_misses": estimated(6, 5, 7, "independent streams, prefetched"),
    },
    "mcf": {
        "footprint_mib": public(1700, "SPEC CPU2006: 1.7 GB a copy"),
        "base_cpi": estimated(1.5, 1.3, 1.8, "branches"),
        "least_ratio": estimated(0.05, 0.03, 0.08, _CURVES),
        "half_mib": estimated(20, 14, 28, _ALONE),
        "steepness": estimated(1.0, 0.8, 1.2, "misses fall slowly up to tens of MB"),
        "parallel_misses": estimated(6.2, 5.5, 7, _ALONE),
    },
    "milc": {"footprint_mib": public(680, "SPEC CPU2006: 680 MB a copy")},
}
"""What differs on this machine of the thesis's rows, of which each is two copies in a VM."""


def of_one_vcpu(row: Row) -> Row:
    """As the paper runs every application (4): one copy on one vCPU, in a VM of its memory."""
    return replace(row, vcpus=1, memory_mib=_MEMORY, **_HERE.get(row.name, {}))
