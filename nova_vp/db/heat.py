# SPDX-License-Identifier: Apache-2.0
"""What a host's report says of its LLC domains and NUMA nodes, kept beside it: pure.

A map of all hosts, or what a newcomer would meet on each, would otherwise unpack every report.
"""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from nova_vp.degradation import degradation_of
from nova_vp.interference import is_degraded
from nova_vp.wire import compact

_DOMAIN = ("id", "node", "cpus", "free_cores", "vcpus", "misses_per_s")
_NODE = ("node", "misses_per_s", "limit_misses_per_s", "is_hot")


def heat_text(report: Mapping[str, Any]) -> str:
    """Of a valid `wire.REPORT_TOPIC` message."""
    states: dict[int, Counter[str]] = {}
    hurt: Counter[int] = Counter()
    servers: Counter[int] = Counter()
    worst: dict[int, float] = {}
    for vp in report["vps"]:
        found = vp["interference"]
        loses = degradation_of(report, vp)
        for domain_id in vp["domains"]:
            if loses and loses.ratio is not None:
                worst[domain_id] = max(worst.get(domain_id, 0.0), loses.ratio)
            servers[domain_id] += 1
            hurt[domain_id] += is_degraded(vp["state"], found and found["kind"]) is True
            if vp["state"] is not None:
                states.setdefault(domain_id, Counter())[str(vp["state"])] += 1
    domains = [
        {
            **{name: domain[name] for name in _DOMAIN},
            "servers_count": servers[domain["id"]],
            "hurt_count": hurt[domain["id"]],
            "worst_ratio": worst.get(domain["id"]),
            "states": states.get(domain["id"], {}),
            "newcomer_losses": domain.get("newcomer_losses"),
            "digest": domain.get("digest"),
        }
        for domain in report["domains"]
    ]
    nodes = [{name: node[name] for name in _NODE} for node in report.get("nodes", [])]
    return compact({"homing": report.get("homing"), "domains": domains, "nodes": nodes})


def read_heat(text: str | None) -> Mapping[str, Any] | None:
    """`homing` and `domains[].digest` are null of agents that do not say."""
    return None if text is None else dict(json.loads(text))
