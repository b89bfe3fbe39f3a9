# SPDX-License-Identifier: Apache-2.0
"""What the handlers are given: the database, agents, policy, a clock.

No handler reaches out for anything that is not here. The real agents live in `nova_vp.rpcapi`; a
second implementation is in `testing.py`.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from oslo_config import cfg

from nova_vp.conf import database
from nova_vp.db.actions import ActionStore
from nova_vp.db.escalations import Ledger
from nova_vp.db.modes import ModeStore
from nova_vp.db.overlays import OverlayStore
from nova_vp.db.overrides import OverrideStore
from nova_vp.db.read_api import ReadApi
from nova_vp.db.usage import UsageStore
from nova_vp.overlay_waits import OverlayWaits
from nova_vp.service.outage import Outage
from vp_api.latency_limits import LatencyLimits
from vp_api.policy import Policy
from vp_api.project_rate import ProjectRate

TELLERS, CALLERS = 2, 4
"""Of the eight threads that the unit serves with: a silent host keeps one for ten seconds. Commands
do not wait for calls of overlays."""


@dataclass(frozen=True, slots=True)
class Stored:
    """All that is in the database."""

    browser: ReadApi
    ledger: Ledger
    overrides: OverrideStore
    usage: UsageStore
    overlays: OverlayStore
    modes: ModeStore
    actions: ActionStore

    @classmethod
    def open(cls, conf: cfg.ConfigOpts) -> "Stored":
        """Connects when first asked."""
        database.register_opts(conf)
        conf.set_default("answer_timeout_s", database.API_ANSWER_TIMEOUT_S, database.GROUP)
        outage = Outage("the database")
        return cls(
            ReadApi(conf, outage),
            Ledger(conf, outage),
            OverrideStore(conf, outage),
            UsageStore(conf, outage),
            OverlayStore(conf, outage),
            ModeStore(conf, outage),
            ActionStore(conf, outage),
        )


class Agents(Protocol):
    """Methods return once the agent acknowledged. They raise oslo.messaging's exceptions and
    those of the agent itself."""

    def set_mode(self, host: str, mode: str) -> None: ...

    def accept(self, host: str, action_id: str) -> None: ...

    def reject(self, host: str, action_id: str, by: str, why: str) -> None: ...

    def undo(self, host: str, action_id: str) -> None: ...

    def report_latency(self, host: str, text: str) -> None:
        """Returns once it is sent: no agent acknowledges it."""

    def tell_overlays(self, host: str, text: str) -> None:
        """As `report_latency`."""

    def call_overlay(self, host: str, text: str) -> str:
        """What the agent answers, which may be anything."""

    def set_overrides(self, host: str, text: str) -> int | None:
        """The newer version that holds on the host, which ignores these overrides; None: it has
        remembered them."""


@dataclass(frozen=True, slots=True)
class Services:
    """Everything a handler may use besides the request."""

    conf: cfg.ConfigOpts
    stored: Stored
    agents: Agents
    policy: Policy
    clock: Callable[[], datetime]
    is_bus_reachable: Callable[[], bool | None]
    """None: nobody can tell."""
    tellers: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(TELLERS))
    """Who wants to tell an agent of overrides takes one, or leaves it to vp-scheduler."""
    callers: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(CALLERS))
    """The same, who wants to send a call of an overlay."""
    latency: LatencyLimits = field(default_factory=LatencyLimits)
    overlay_rate: ProjectRate = field(
        default_factory=lambda: ProjectRate(
            "calls and changes of overlays", "overlay_requests_per_s"
        )
    )
    overlay_waits: OverlayWaits = field(default_factory=OverlayWaits)
