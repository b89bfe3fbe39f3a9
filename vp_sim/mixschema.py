# SPDX-License-Identifier: Apache-2.0
"""What a mix's file may hold: names, counts, and the ranges that the model can compute with.

Beyond these a machine would need more memory than this one has, or a figure would divide by zero.
"""

from vp_sim.app_profiles import ROWS
from vp_sim.filecheck import NAME
from vp_sim.machine import Private
from vp_sim.mixes import Fill, Memory
from vp_sim.queues import QueueForm


def _number(low: float, high: float) -> dict[str, object]:
    return {"type": "number", "minimum": low, "maximum": high}


def _count(most: int) -> dict[str, object]:
    return {"type": "integer", "minimum": 1, "maximum": most}


_RATIO = _number(0, 1)
APPLICATION = {
    "memory_mib": _number(1, 1e8),
    "footprint_mib": _number(0, 1e8),
    "base_cpi": _number(0.05, 100),
    "l1_mpki": _number(0, 1000),
    "l2_mpki": _number(0, 1000),
    "full_ratio": _RATIO,
    "least_ratio": _RATIO,
    "half_mib": _number(0.001, 1e6),
    "steepness": _number(0, 20),
    "hit_exposure": _RATIO,
    "parallel_misses": _number(0.1, 1000),
    "writeback_ratio": _number(0, 10),
    "busy_ratio": _number(0.01, 1),
    "computing_ratio": _RATIO,
}
_MACHINE = {
    "clock_ghz": _number(0.1, 20),
    "llc_mib": _number(0.1, 1e5),
    "llc_cycles": _number(1, 1000),
    "node_mib": _number(1, 1e9),
    "local_ns": _number(1, 1e5),
    "remote_ns": _number(1, 1e5),
    "node_gbps": _number(0.01, 1e5),
    "node_channels": _number(1, 256),
    "link_gbps": _number(0.01, 1e5),
    "vcpu_move_us": _number(0, 1e5),
    "page_copy_ns": _number(1, 1e6),
    "page_handling_ns": _number(0, 1e6),
    "moving_cores": _number(0, 1024),
    "moving_stall_ratio": _RATIO,
    "row_conflict_ratio": _number(0, 10),
    "row_conflict_ns": _number(0, 1e5),
    "small_pages_ratio": _number(0, 0.9),
    "memory_extent_mib": _number(1, 1e9),
    "intensity_weight": _number(0.1, 3),
    "sibling_ratio": _number(0.1, 1),
}
MOST_CPUS = 1024
MOST_VMS = 200
MOST_EXTENTS = 20_000
"""Of memory, each of which finds its node by itself when a run starts."""
MOST_THREADS = 2
"""Of a core: the model knows one sibling."""
SHAPE = {
    "nodes": _count(MOST_CPUS),
    "domains_per_node": _count(MOST_CPUS),
    "cores_per_domain": _count(MOST_CPUS),
    "threads_per_core": _count(MOST_THREADS),
    "private": {"enum": [private.value for private in Private]},
}

SCHEMA = {
    "type": "object",
    "additionalProperties": False,
    "required": ["applications"],
    "properties": {
        "name": NAME,
        "fill": {"enum": [fill.value for fill in Fill]},
        "memory": {"enum": [memory.value for memory in Memory]},
        "machine": {
            "type": "object",
            "additionalProperties": False,
            "properties": {
                **SHAPE,
                "queue_form": {"enum": [form.value for form in QueueForm]},
                **_MACHINE,
            },
        },
        "applications": {
            "type": "array",
            "minItems": 1,
            "maxItems": MOST_VMS,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["app"],
                "properties": {
                    "app": {"enum": sorted(ROWS)},
                    "name": NAME,
                    "count": _count(MOST_VMS),
                    "priority": _number(0.1, 10),
                    "extra_specs": {"type": "object", "additionalProperties": {"type": "string"}},
                    "initial_cores": _count(MOST_CPUS),
                    "vcpus": _count(MOST_CPUS),
                    "guests": _count(MOST_VMS),
                    **APPLICATION,
                },
            },
        },
    },
}
