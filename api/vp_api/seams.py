# SPDX-License-Identifier: Apache-2.0
"""What the handlers are given, in the shapes they call: stored reports, agents, policy, a clock.

The real store and agents live in `nova_vp`; second implementations are in `testing.py`. No
handler reaches out for anything that is not here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from nova_vp.db.queries import HostRecord
from vp_api.policy import Policy


class Store(Protocol):
    def list_hosts(self) -> Sequence[HostRecord]: ...

    def get_host(self, name: str) -> HostRecord | None: ...


class Agents(Protocol):
    """Methods return once the agent acknowledged. They raise oslo.messaging's exceptions and
    those of the agent itself."""

    def set_mode(self, host: str, mode: str) -> None: ...

    def accept(self, host: str, action_id: str) -> None: ...


@dataclass(frozen=True, slots=True)
class Services:
    """Everything a handler may use besides the request."""

    store: Store
    agents: Agents
    policy: Policy
    clock: Callable[[], datetime]
