# SPDX-License-Identifier: Apache-2.0
"""Escalations over oslo.messaging: a call that returns once the cluster's ledger has them.

Connects when first used, on the thread that uses it: most agents never escalate.
"""

from functools import cached_property
from typing import Any

from oslo_config import cfg


class BusEscalations:
    """`vp_agent.publish.escalator.Sender`."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    def escalate(self, text: str) -> None:
        _, api = self._client
        api.escalate(text)

    def close(self) -> None:
        if "_client" in self.__dict__:
            transport, _ = self._client
            transport.cleanup()

    @cached_property
    def _client(self) -> tuple[Any, Any]:
        # Late: memory that an agent which never escalates does not need.
        from nova_vp import rpcapi

        transport = rpcapi.open_transport(self._conf)
        return transport, rpcapi.EscalationAPI(transport)
