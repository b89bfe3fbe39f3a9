# SPDX-License-Identifier: Apache-2.0
"""Exchanges, queues and routing keys: where a message goes, and where a program listens.

Both exchanges are RabbitMQ's own, so that no account needs a right to declare one, which would be
the right to delete it too. Each direction has one, because a right to write to an exchange covers
all keys (RabbitMQ compares its rights to topics with the routing key alone, not with the keys in a
message's `CC` header): who may write to services cannot write to hosts. Towards hosts it is a topic
exchange, since what one may *read* there is a right to single keys.
"""

from typing import NamedTuple

from nova_vp import wire
from nova_vp.signing.senders import Process

TO_HOSTS = "amq.topic"
TO_SERVICES = "amq.direct"
STATUS_TOPIC = "vp_status"
"""Of what nobody listens to."""
SHARED = (wire.REPORT_TOPIC, wire.ESCALATION_TOPIC, wire.USAGE_TOPIC, wire.OVERLAY_CALL)
"""Each message goes to one of those who listen; elsewhere a queue has one listener."""


class Inbox(NamedTuple):
    """A queue that one listens to."""

    exchange: str
    queue: str
    keys: tuple[str, ...]
    """All messages with one of these routing keys at the exchange come to the queue."""
    outlives_listener: bool


def inbox(topic: str, server: str) -> Inbox:
    """Of who listens to a topic as that server."""
    exchange, own = exchange_of(topic, server), f"{topic}.{server}"
    if topic in SHARED:
        return Inbox(exchange, topic, (topic,), True)
    if topic == wire.DIGEST_TOPIC:
        return Inbox(exchange, own, (topic,), False)
    if topic == wire.ANSWER_TOPIC:
        return Inbox(exchange, own, (own,), False)
    return Inbox(exchange, own, (topic, own), True)


def exchange_of(topic: str, server: str | None) -> str:
    """Through which one reaches who listens to a topic as that server; None: all who do."""
    is_agents_answer = topic == wire.ANSWER_TOPIC and str(server).startswith(f"{Process.AGENT}.")
    return TO_HOSTS if topic == wire.AGENT_TOPIC or is_agents_answer else TO_SERVICES
