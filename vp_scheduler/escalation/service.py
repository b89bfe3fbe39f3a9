# SPDX-License-Identifier: Apache-2.0
"""Escalation within a vp-scheduler: takes in what agents ask, and the worker that answers it.

Wired here and nowhere else. An escalation is acknowledged when the ledger has committed it, and not
before: an agent that hears nothing sends it again, and the ledger knows it by its id.
"""

import logging
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any, Protocol

from oslo_config import cfg

from nova_vp import rpcserver, rpctransport, wire
from nova_vp.core.types.policy import Mode
from nova_vp.db.escalations import Ledger
from nova_vp.db.report_store import ERRORS
from nova_vp.message_filter import (
    KnownHosts,
    MessageFilter,
    may_refuse,
)
from nova_vp.service import failpoints
from nova_vp.signing.envelope import Call
from nova_vp.signing.identity import Identity
from vp_scheduler.escalation import session, settings
from vp_scheduler.escalation.agents import BusAgents
from vp_scheduler.escalation.clock import Clock
from vp_scheduler.escalation.context import Backends
from vp_scheduler.escalation.nova_client import NoCloud, Nova, NovaClient
from vp_scheduler.escalation.state_machine import StateMachine
from vp_scheduler.escalation.worker import Worker

LOG = logging.getLogger(__name__)


class Adding(Protocol):
    """What of `Ledger` the endpoint uses."""

    def add(self, id: str, host: str, message: str, now: datetime) -> bool: ...


class EscalationEndpoint:
    """`rpcapi.EscalationAPI`, served."""

    def __init__(
        self,
        ledger: Adding,
        poke: Callable[[], None],
        known_hosts: Iterable[str],
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._poke = poke
        self.known_hosts = KnownHosts(known_hosts)
        self.refusals = MessageFilter()
        self._clock = clock

    # They go back to the agent, which keeps its escalation; a traceback here would tell no more.
    @may_refuse(wire.BadMessage, *ERRORS)
    def escalate(self, call: Call, text: Any) -> None:
        host = call.sender.host
        message = self.refusals.take(wire.ESCALATION_TOPIC, text, host, self.known_hosts)
        failpoints.reach("before-ledger-commit")
        is_new = self._ledger.add(message["id"], message["host"], text, self._clock.now())
        failpoints.reach("after-ledger-commit")
        if is_new:
            LOG.info("escalation=%s host=%s it came in", message["id"], message["host"])
        failpoints.reach("before-acknowledgement")
        self._poke()


class EscalationService:
    def __init__(self, identity: Identity) -> None:
        """Raises cfg.Error where it may act and cannot. Calls nobody."""
        conf = identity.conf
        chosen = self._settings = settings.read(conf)
        clock = Clock()
        ledger = Ledger(conf)
        self._agents = BusAgents(identity)
        nova = _open_nova(conf, chosen.mode)
        self._steps = StateMachine(Backends(ledger, self._agents, nova, clock), chosen)
        self._worker = Worker(ledger, self._steps, clock, chosen.lease_s, chosen.poll_s)
        known_hosts = conf.vp_scheduler.known_hosts
        self._endpoint = EscalationEndpoint(ledger, self._worker.wake, known_hosts, clock)
        where = rpctransport.target(wire.ESCALATION_TOPIC, server="vp-scheduler")
        self._server = rpcserver.BackgroundServer(identity, where, [self._endpoint])

    def apply_config(self, conf: cfg.ConfigOpts) -> None:
        """What the mutable options say now. Raises cfg.Error, and changes nothing then."""
        chosen = settings.read(conf)
        _check_may_act(conf, chosen.mode)
        self._settings = chosen
        self._steps.apply_config(chosen)
        self._endpoint.known_hosts.apply_config(conf.vp_scheduler.known_hosts)

    @property
    def mode(self) -> Mode:
        return self._settings.mode

    @property
    def is_listening(self) -> bool:
        return self._server.is_ready

    def start(self) -> None:
        self._worker.start()
        self._server.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        """First nothing more comes in, then what is being done is finished."""
        self._server.stop(timeout_s)
        self._worker.stop(timeout_s)
        self._agents.close()


def _open_nova(conf: cfg.ConfigOpts, mode: Mode) -> Nova:
    _check_may_act(conf, mode)
    return NovaClient(session.open_cloud(conf)) if session.is_configured(conf) else NoCloud()


def _check_may_act(conf: cfg.ConfigOpts, mode: Mode) -> None:
    """Raises cfg.Error."""
    if mode is not Mode.OBSERVE and not session.is_configured(conf):
        raise cfg.Error(
            f"[vp_scheduler] escalation_mode = {mode.value} migrates through Nova: fill in [cloud] "
            "(auth_type, auth_url, username, password …), or set escalation_mode = observe"
        )
