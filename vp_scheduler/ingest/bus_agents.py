# SPDX-License-Identifier: Apache-2.0
"""Agents on the bus, as ingest tells them of overrides, overlays, facts and modes; nobody waits."""

from functools import cached_property

from nova_vp import rpcapi, rpctransport
from nova_vp.signing.identity import Identity


class BusAgents:
    """Connects when first used, on the thread that uses it. One for each thread.

    All raise oslo.messaging's exceptions."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def tell_overrides(self, host: str, text: str) -> None:
        self._api.tell_overrides(host, text)

    def tell_facts(self, host: str, text: str) -> None:
        self._api.tell_facts(host, text)

    def tell_overlays(self, host: str, text: str) -> None:
        self._api.tell_overlays(host, text)

    def tell_modes(self, host: str, text: str) -> None:
        self._api.tell_modes(host, text)

    @cached_property
    def _api(self) -> rpcapi.AgentAPI:
        return rpcapi.AgentAPI(rpctransport.Bus(self._identity))
