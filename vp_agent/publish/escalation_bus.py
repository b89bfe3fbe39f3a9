# SPDX-License-Identifier: Apache-2.0
"""Escalations over oslo.messaging: a call that returns once the cluster's ledger has them.

Connects when first used, on the thread that uses it: most agents never escalate.
"""

from functools import cached_property
from typing import Any

from nova_vp.signing.identity import Identity


class BusEscalations:
    """`vp_agent.publish.escalator.Sender`."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def escalate(self, text: str) -> None:
        self._client[1].escalate(text)

    def close(self) -> None:
        if "_client" in self.__dict__:
            self._client[0].close()

    @cached_property
    def _client(self) -> tuple[Any, Any]:
        # Late: memory that an agent which never escalates does not need.
        from nova_vp import answers, rpcapi

        bus = answers.open_asking_bus(self._identity)
        return bus, rpcapi.EscalationAPI(bus)
