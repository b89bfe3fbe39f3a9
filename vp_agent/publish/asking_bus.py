# SPDX-License-Identifier: Apache-2.0
"""What an agent tells over oslo.messaging and waits for: calls that return once the cluster has it.

Connects when first used, on the thread that uses it: most agents never escalate, and many bill
nothing.
"""

import threading
from collections.abc import Mapping
from functools import cached_property
from typing import Any, ClassVar

from oslo_config import cfg

from nova_vp.signing.identity import Identity
from vp_agent.loop.monitor_calls import NoAnswer


class _Asking:
    _api: ClassVar[str]
    """Of `nova_vp.rpcapi`."""

    def __init__(self, identity: Identity) -> None:
        self._identity = identity

    def close(self) -> None:
        if "_client" in self.__dict__:
            self._client[0].close()

    @cached_property
    def _client(self) -> tuple[Any, Any]:
        # Late: memory that an agent which never asks does not need.
        from nova_vp import answers, rpcapi

        bus = answers.open_asking_bus(self._identity)
        return bus, getattr(rpcapi, self._api)(bus)


class BusEscalations(_Asking):
    """`vp_agent.publish.escalator.Sender`."""

    _api = "EscalationAPI"

    def escalate(self, text: str) -> None:
        self._client[1].escalate(text)


class BusUsage(_Asking):
    """`vp_agent.publish.usage_sender.Sender`."""

    _api = "UsageAPI"

    def usage(self, text: str) -> Mapping[str, str]:
        told: Mapping[str, str] = self._client[1].usage(text)
        return told


class BusOverlayCalls(_Asking):
    """`vp_agent.loop.monitor_calls.Elsewhere`. Several threads use it."""

    _api = "OverlayAPI"

    def __init__(self, identity: Identity) -> None:
        super().__init__(identity)
        self._lock = threading.Lock()

    def call_elsewhere(self, text: str) -> str:
        import oslo_messaging  # Late: as above.

        from nova_vp.rpcapi import NobodyListens

        try:
            with self._lock:
                api = self._client[1]
            return str(api.call_elsewhere(text))
        except oslo_messaging.MessagingTimeout as exc:
            raise NoAnswer(
                f"vp-scheduler: {exc}; it may have taken effect: its lease ends it, and a repeated "
                "call with its id is carried out once"
            ) from exc
        except (NobodyListens, oslo_messaging.MessagingException, cfg.Error) as exc:
            raise NoAnswer(f"vp-scheduler: {exc}") from exc
