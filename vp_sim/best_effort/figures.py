# SPDX-License-Identifier: Apache-2.0
"""The figures of the model: what the source prints, and what it leaves open.

`doc/source/best-effort-model.md` lists them. Two were fitted (`fit.py`), all others stand as they
are printed or assumed.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from random import Random
from typing import Any

from vp_sim.perturb import MOST_OFF


@dataclass(frozen=True, slots=True)
class Figures:
    """Of memcached, stress-ng and the socket that they share."""

    machine_cpus: int = 36
    """Printed (5.1.1)."""
    lc_cores: int = 17
    """Printed (5.1.3): memcached's, which stress-ng shares."""
    be_cores: int = 8
    """Printed (5.1.4)."""
    target_ms: float = 10.0
    """Printed (5.1.2): of the 95th percentile."""
    max_rps: float = 450_000.0
    """Printed (5.1.3)."""
    lowest_rps: float = 240_000.0
    """Fitted. The source does not say where the load of its runs begins and ends."""
    step_rps: float = 10_000.0
    """Assumed. Printed (5.1.3): it is constant."""
    step_s: float = 200.0
    """Printed (5.1.3)."""
    alone_at_lowest_ratio: float = 0.65
    """Printed (5.2.1): the CPU that memcached uses at the lowest load, of its cores."""
    needed_at_lowest_ratio: float = 0.5
    """Printed (5.2.2): the CPU that it needs then."""
    saturation_rps: float = 500_000.0
    """Assumed: where its queue has no end. Printed (5.1.3): it lies above 450 k, and latency rises
    steeply between 450 k and 500 k."""
    idle_ms: float = 1.0
    """Assumed: p95 without any load."""
    full_ms: float = 8.0
    """Assumed: p95 alone at 450 k, which the source only says to be below 10."""
    lost_per_be_core: float = 0.045
    """Fitted: the share of saturation that each core which stress-ng uses costs memcached."""
    worst_backlog_ms: float = 200.0
    """Assumed: the client has so many requests under way, and sends no more."""
    base_cpi: float = 1.2
    """Assumed; no result depends on it."""
    cpi_noise_ratio: float = 0.015
    """Assumed: standard deviation of CPI over one interval of the main monitor."""
    load_noise_ratio: float = 0.005
    """Assumed: standard deviation. Printed (5.1.3): the load that is served varies."""
    latency_noise_ratio: float = 0.02
    """Assumed: standard deviation of one sample."""
    sample_s: float = 1.0
    """Assumed: how often the client says its p95."""


def read_figures(path: Path) -> Figures:
    """Of a JSON file with any of the fields. Raises ValueError."""
    told = json.loads(path.read_text())
    known = {field.name: field.type for field in fields(Figures)}
    unknown = set(told) - set(known) if isinstance(told, Mapping) else {path.name}
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))}: use fields of {', '.join(known)}")
    values: dict[str, Any] = {}
    for name, value in told.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
            raise ValueError(f"{name} is {value!r}: give a number above 0")
        values[name] = int(value) if name.endswith(("cores", "cpus")) else float(value)
    return replace(Figures(), **values)


PERTURBED = (
    "saturation_rps",
    "idle_ms",
    "full_ms",
    "lost_per_be_core",
    "needed_at_lowest_ratio",
    "alone_at_lowest_ratio",
)


def perturbed(seed: int) -> Figures:
    """Figures off by up to 30 % in each direction. Alone, memcached must still meet its target at
    its highest load, with the noise that it has, so that a model which misses is drawn again."""
    random, figures = Random(f"best-effort-{seed}"), Figures()
    while True:
        told = asdict(figures)
        drawn = {
            name: told[name] * random.uniform(1 - MOST_OFF, 1 + MOST_OFF) for name in PERTURBED
        }
        found = replace(figures, **drawn)
        needed = found.needed_at_lowest_ratio * found.max_rps / found.lowest_rps
        has_room = found.saturation_rps > 1.05 * found.max_rps and needed < 0.97
        if has_room and found.full_ms < 0.8 * found.target_ms + 1e-9:
            return found
