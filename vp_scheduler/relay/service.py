# SPDX-License-Identifier: Apache-2.0
"""The vp-scheduler's part that takes calls of overlays from hosts, for servers on other hosts.

It listens on a queue of its own: a host that is silent keeps neither reports nor escalations
waiting. Any number of vp-schedulers may take them.
"""

from collections.abc import Iterable
from typing import Any

from oslo_config import cfg

from nova_vp import rpcserver, rpctransport, wire
from nova_vp.db.overlay_members import members_of
from nova_vp.db.overlays import ListedOverlay, OverlayStore
from nova_vp.db.read_api import ReadApi
from nova_vp.message_filter import KnownHosts, MessageFilter, RejectedMessage, may_refuse
from nova_vp.overlay_message import answer_text, read_call
from nova_vp.signing.envelope import Call
from nova_vp.signing.identity import Identity
from vp_scheduler.agent_bus import AgentBus
from vp_scheduler.escalation import session
from vp_scheduler.escalation.nova_client import NoCloud, NovaClient
from vp_scheduler.relay.confirmed_hosts import ConfirmedHosts
from vp_scheduler.relay.relay import Foreign, Overlay, Relay, foreign

THREADS = 8
"""Calls at once: of each, one waits for the agents of other hosts."""
_WHAT = "calls of overlays"


class OverlayCallEndpoint:
    """`rpcapi.OverlayAPI`, served."""

    def __init__(self, relay: Relay, known_hosts: Iterable[str] = ()) -> None:
        self._relay = relay
        self.known_hosts = KnownHosts(known_hosts)
        self.refusals = MessageFilter()

    @may_refuse(wire.BadMessage)
    def call_elsewhere(self, call: Call, text: Any) -> str:
        host = call.sender.host
        try:
            self.known_hosts.check(host)
            message = read_call(text)
        except wire.BadMessage as exc:
            self.refusals.note("malformed", _WHAT, exc)
            raise
        except RejectedMessage as exc:
            self.refusals.note("unwelcome", _WHAT, exc)
            raise wire.BadMessage(str(exc)) from exc
        try:
            return answer_text(self._relay.answer(host, message))
        except Foreign as exc:
            self.refusals.note("unwelcome", _WHAT, exc)
            return answer_text(foreign(message.call))


class StoredOverlays:
    """Implements `relay.Registry`."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._overlays = OverlayStore(conf)
        self._browser = ReadApi(conf)

    def find(self, overlay_id: str, project_id: str) -> Overlay | None:
        listed = self._listed(overlay_id, project_id)
        if listed is None or listed.project_id != project_id:
            return None
        [members] = members_of([listed], self._overlays, self._browser)
        return Overlay(overlay_id, project_id, members)

    def _listed(self, overlay_id: str, project_id: str) -> ListedOverlay | None:
        registered = self._overlays.get(overlay_id)
        if registered is not None:
            return ListedOverlay(registered.project_id, registered.name, registered)
        group = self._overlays.find_group(overlay_id, project_id)
        return group and ListedOverlay(*group, None)


class BusAgents:
    """Implements `relay.Agents`."""

    def __init__(self, identity: Identity) -> None:
        self._bus = AgentBus(identity)

    def call_overlay(self, host: str, text: str) -> str:
        return self._bus.api().call_overlay(host, text)

    def close(self) -> None:
        self._bus.close()


class OverlayCallService:
    def __init__(self, identity: Identity) -> None:
        conf = identity.conf
        nova = NovaClient(session.open_cloud(conf)) if session.is_configured(conf) else NoCloud()
        settings = conf.vp_scheduler
        self._agents = BusAgents(identity)
        relay = Relay(
            StoredOverlays(conf),
            ConfirmedHosts(nova),
            self._agents,
            calls_per_s=settings.overlay_calls_per_s,
            stale_after_s=settings.stale_after_s,
        )
        self.endpoint = OverlayCallEndpoint(relay, settings.known_hosts)
        where = rpctransport.target(wire.OVERLAY_CALL, server="vp-scheduler")
        self._server = rpcserver.BackgroundServer(identity, where, [self.endpoint], threads=THREADS)

    @property
    def is_listening(self) -> bool:
        return self._server.is_ready

    def start(self) -> None:
        self._server.start()

    def stop(self, timeout_s: float = 5.0) -> None:
        self._server.stop(timeout_s)
        self._agents.close()
