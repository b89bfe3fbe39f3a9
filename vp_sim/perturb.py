# SPDX-License-Identifier: Apache-2.0
"""Hosts that no policy was tuned on: figures of machine and applications off by up to 30 %, and
either form of queue.

A draw (`parameters`) takes estimated figures from the ranges that the sources leave open. A
perturbation goes beyond: it changes what the sources print, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from vp_sim.apps import App
from vp_sim.machine import Machine
from vp_sim.queues import QueueForm

MOST_OFF = 0.3
DIGITS = 4


@dataclass(frozen=True, slots=True)
class Perturbation:
    """What was drawn; every figure as a factor of what it was."""

    seed: int
    queue_form: QueueForm
    node_bandwidth: float
    link_bandwidth: float
    latency: float
    """Of local and of remote memory."""
    cache_sharing: float
    """How much more an intense application holds of an LLC (`intensity_weight`)."""
    miss_cost: Mapping[str, float]
    """By application: what one miss costs it, at the same latency."""
    cache_need: Mapping[str, float]
    """By application: LLC with which half of its misses that can be won are won."""

    def as_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "queue_form": self.queue_form.value,
            "node_bandwidth": round(self.node_bandwidth, DIGITS),
            "link_bandwidth": round(self.link_bandwidth, DIGITS),
            "latency": round(self.latency, DIGITS),
            "cache_sharing": round(self.cache_sharing, DIGITS),
            "miss_cost": _rounded(self.miss_cost),
            "cache_need": _rounded(self.cache_need),
        }


def perturb(
    machine: Machine, apps: Mapping[str, App], seed: int
) -> tuple[Machine, dict[str, App], Perturbation]:
    """The same seed gives an application the same factors on every machine and in every mix."""

    def factor(figure: str) -> float:
        return Random(f"perturb-{seed}-{figure}").uniform(1 - MOST_OFF, 1 + MOST_OFF)

    drawn = Perturbation(
        seed=seed,
        queue_form=Random(f"perturb-{seed}-queue_form").choice(tuple(QueueForm)),
        node_bandwidth=factor("node_bandwidth"),
        link_bandwidth=factor("link_bandwidth"),
        latency=factor("latency"),
        cache_sharing=factor("cache_sharing"),
        miss_cost={name: factor(f"miss_cost-{name}") for name in apps},
        cache_need={name: factor(f"cache_need-{name}") for name in apps},
    )
    changed = {
        name: replace(
            app,
            parallel_misses=app.parallel_misses / drawn.miss_cost[name],
            half_mib=app.half_mib * drawn.cache_need[name],
        )
        for name, app in apps.items()
    }
    return _machine(machine, drawn), changed, drawn


def _machine(machine: Machine, drawn: Perturbation) -> Machine:
    costs = machine.costs
    return machine._replace(
        queue_form=drawn.queue_form,
        costs=costs._replace(
            node_gbps=costs.node_gbps * drawn.node_bandwidth,
            link_gbps=costs.link_gbps * drawn.link_bandwidth,
            local_ns=costs.local_ns * drawn.latency,
            remote_ns=costs.remote_ns * drawn.latency,
            intensity_weight=costs.intensity_weight * drawn.cache_sharing,
        ),
    )


def as_text(drawn: Perturbation) -> str:
    """One line."""
    told = [
        f"{name.replace('_', ' ')} {value:.2f}"
        for name, value in drawn.as_json().items()
        if isinstance(value, float)
    ]
    per_app = [
        f"{name} {drawn.miss_cost[name]:.2f}/{drawn.cache_need[name]:.2f}"
        for name in drawn.miss_cost
    ]
    return (
        f"Perturbed by seed {drawn.seed}: queue form {drawn.queue_form.value}; factors: "
        f"{', '.join(told)}; miss cost/cache need: {', '.join(per_app)}"
    )


def _rounded(factors: Mapping[str, float]) -> dict[str, float]:
    return {name: round(value, DIGITS) for name, value in factors.items()}
