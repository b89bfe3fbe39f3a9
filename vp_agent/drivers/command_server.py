# SPDX-License-Identifier: Apache-2.0
"""The agent's ear on the bus: orders to this host, and schedulers' wish to hear of it again.

Only translates: what an order does is `vp_agent.commands.Commands`'. Nothing here needs the broker
to be there; it listens as soon as there is one. Import late: it brings oslo.messaging.
"""

import math
from collections.abc import Callable
from typing import Any

import oslo_messaging
from oslo_config import cfg

from nova_vp import rpcapi, wire
from nova_vp.core.model import Mode
from vp_agent.commands import Commands, NotAdvising, UnknownAction

MAX_SPREAD_S = 60.0
FIRST_WITHIN_S = 2.0
CLOSE_TIMEOUT_S = 1.0
"""An idle listener of oslo.messaging takes up to 5 s to notice; no agent waits for that."""


class Endpoint:
    """`rpcapi.AgentAPI`, served."""

    target = oslo_messaging.Target(version="1.0")

    def __init__(self, commands: Commands, republish: Callable[[float], None]) -> None:
        self._commands = commands
        self._republish = republish

    @oslo_messaging.expected_exceptions(ValueError, OSError)  # type: ignore[untyped-decorator]
    def set_mode(self, context: Any, mode: str) -> None:
        self._commands.set_mode(Mode(mode))

    @oslo_messaging.expected_exceptions(UnknownAction, NotAdvising)  # type: ignore[untyped-decorator]
    def accept(self, context: Any, action_id: str) -> None:
        self._commands.accept(str(action_id))

    def republish(self, context: Any, within_s: float) -> None:
        spread_s = float(within_s)
        self._republish(min(max(spread_s, 0.0), MAX_SPREAD_S) if math.isfinite(spread_s) else 0.0)


class CommandServer:
    def __init__(
        self,
        conf: cfg.ConfigOpts,
        host: str,
        commands: Commands,
        republish: Callable[[float], None],
    ) -> None:
        """Raises cfg.Error for an URL of the bus that cannot be used."""
        rpcapi.open_transport(conf)
        where = rpcapi.target(wire.AGENT_TOPIC, server=host)
        # A scheduler that asked before we listened is answered too.
        self._server = rpcapi.BackgroundServer(
            conf,
            where,
            [Endpoint(commands, republish)],
            on_ready=lambda transport: republish(FIRST_WITHIN_S),
        )

    def start(self) -> None:
        """Returns at once; listens from when the broker is there."""
        self._server.start()

    @property
    def is_listening(self) -> bool:
        return self._server.is_ready

    def close(self) -> None:
        self._server.stop(CLOSE_TIMEOUT_S)
