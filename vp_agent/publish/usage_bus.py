# SPDX-License-Identifier: Apache-2.0
"""Usage over oslo.messaging: a call that returns once the database has it.

Connects when first used, on the thread that uses it: hosts without permits bill nothing.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from nova_vp.signing.identity import Identity


class BusUsage:
    """`vp_agent.publish.usage_sender.Sender`."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def usage(self, text: str) -> Mapping[str, str]:
        told: Mapping[str, str] = self._client[1].usage(text)
        return told

    def close(self) -> None:
        if "_client" in self.__dict__:
            self._client[0].close()

    @cached_property
    def _client(self) -> tuple[Any, Any]:
        # Late: memory that an agent which never bills does not need.
        from nova_vp import answers, rpcapi

        bus = answers.open_asking_bus(self._identity)
        return bus, rpcapi.UsageAPI(bus)
