# SPDX-License-Identifier: Apache-2.0
"""What messages say of the host besides the decision, and the fields that both messages share."""

from dataclasses import dataclass, field
from typing import Any

from nova_vp import wire
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.knob import Knob
from vp_agent.loop.host_mode import NO_HOST_MODES, HostModes
from vp_agent.loop.host_overlays import NO_OVERLAYS, ToldOverlays
from vp_agent.loop.latency_reports import NOTHING_REPORTED, KnownReports
from vp_agent.loop.overrides import NO_CLOUD_OVERRIDES, CloudOverrides
from vp_agent.loop.told_facts import NOTHING_TOLD, Told


@dataclass(frozen=True, slots=True)
class HostInfo:
    """What a message says of the host besides the decision."""

    host: str
    counters: str
    """Name of the counter source."""
    actuator: str
    is_homing: bool
    """Whether a newcomer would get one LLC domain in the present mode."""
    epoch_offset_s: float
    """Seconds since 1970 minus monotonic seconds."""
    serves_classes: bool = False
    """Whether a controller protects latency-critical servers from best-effort ones."""
    problems: tuple[str, ...] = ()
    """What is wrong with the counters, in words."""
    stopped_servers: frozenset[str] = field(default_factory=frozenset)
    """UUIDs of servers defined here that do not run: the scheduler would take them for newcomers
    that are still to come."""
    knobs: frozenset[Knob] = frozenset()
    """What this host's agent can turn, if it may."""
    hypervisor: str = ""
    """libvirt's name of the host, under which Placement knows it; empty: not asked yet."""
    told: CloudOverrides = NO_CLOUD_OVERRIDES
    """What is overridden of servers, as far as this host was told."""
    facts: Told = NOTHING_TOLD
    """What Nova knows of the host, as far as it was told."""
    modes: HostModes = NO_HOST_MODES
    """What is set of the host's mode, where."""
    latency: KnownReports = NOTHING_REPORTED
    """What applications reported of servers here."""
    overlays: ToldOverlays = NO_OVERLAYS
    """Those with servers here, as far as this host was told."""


def head(decision: Decision, host_info: HostInfo, version: wire.MessageVersion) -> dict[str, Any]:
    return {
        "v": wire.VERSION,
        "host": host_info.host,
        "epoch": version.epoch,
        "seq": version.sequence,
        "mode": decision.mode.value,
    }
