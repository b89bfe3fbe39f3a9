# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ accounts that may do what their sender does, and no more: names, rights, definitions.

oslo.messaging names things as follows. Who listens to a topic T as server S has the queues `T` and
`T.S` at the topic exchange `nova_vp`, and a queue `T_fanout_…` at the exchange `T_fanout`; who
sends declares the exchange. Nothing of ours uses the default exchange.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from nova_vp import wire
from nova_vp.signing.senders import Process, Sender

ANY = r"[A-Za-z0-9_.:@-]+"
UNIQUE = "[0-9a-f]{32}"
STATUS_FANOUT = "vp_status_fanout"
"""Where `vp-agent check` and `vp-status` say something that nobody hears."""


class _Use(NamedTuple):
    """Regular expressions of topics, servers at them, and exchanges."""

    listens: tuple[tuple[str, str], ...]
    """(topic, server)."""
    sends: tuple[str, ...]
    """Routing keys at the topic exchange."""
    fans_out: tuple[str, ...]
    """Topics of which everybody is told."""


def user_of(sender: Sender) -> str:
    return f"nova-vp.{sender.process}.{sender.host}"


def rights(sender: Sender) -> Mapping[str, str]:
    """`configure`, `write` and `read` of an account, and `topic_write` and `topic_read` at our
    exchange: regular expressions as RabbitMQ takes them."""
    use = _use(sender)
    queues = [
        name
        for topic, server in use.listens
        for name in (topic, rf"{topic}\.{server}", f"{topic}_fanout_{UNIQUE}")
    ]
    heard = [f"{topic}_fanout" for topic, _ in use.listens]
    told = [*(f"{topic}_fanout" for topic in use.fans_out), STATUS_FANOUT]
    bound = [key for topic, server in use.listens for key in (topic, rf"{topic}\.{server}")]
    return {
        "configure": _one_of([wire.EXCHANGE, *queues, *heard, *told]),
        "write": _one_of([wire.EXCHANGE, *queues, *told]),
        "read": _one_of([wire.EXCHANGE, *queues, *heard]),
        "topic_write": _one_of(use.sends),
        "topic_read": _one_of(bound),
    }


def definitions(passwords: Mapping[Sender, str], virtual_host: str) -> dict[str, Any]:
    """For `rabbitmqctl import_definitions`."""
    accounts = [(user_of(sender), rights(sender)) for sender in passwords]
    return {
        "users": [
            {"name": user_of(sender), "password": password, "tags": ""}
            for sender, password in passwords.items()
        ],
        "permissions": [
            {
                "user": user,
                "vhost": virtual_host,
                **{name: granted[name] for name in ("configure", "write", "read")},
            }
            for user, granted in accounts
        ],
        "topic_permissions": [
            {
                "user": user,
                "vhost": virtual_host,
                "exchange": wire.EXCHANGE,
                "write": granted["topic_write"],
                "read": granted["topic_read"],
            }
            for user, granted in accounts
        ],
    }


def _use(sender: Sender) -> _Use:
    own = re.escape(sender.host)
    answers = (wire.ANSWER_TOPIC, rf"{sender.process}\.{own}\.{UNIQUE}")
    match sender.process:
        case Process.AGENT:
            return _Use(
                listens=((wire.AGENT_TOPIC, own), answers),
                sends=(
                    wire.REPORT_TOPIC,
                    wire.ESCALATION_TOPIC,
                    rf"{wire.ANSWER_TOPIC}\.({Process.API}|{Process.SCHEDULER})\.{ANY}",
                ),
                fans_out=(wire.DIGEST_TOPIC,),
            )
        case Process.SCHEDULER:
            return _Use(
                listens=(
                    (wire.REPORT_TOPIC, "vp-scheduler"),
                    (wire.ESCALATION_TOPIC, "vp-scheduler"),
                    answers,
                ),
                sends=(
                    rf"{wire.AGENT_TOPIC}\.{ANY}",
                    rf"{wire.ANSWER_TOPIC}\.{Process.AGENT}\.{ANY}",
                ),
                fans_out=(wire.DIGEST_TOPIC, wire.AGENT_TOPIC),
            )
        case Process.API:
            return _Use(listens=(answers,), sends=(rf"{wire.AGENT_TOPIC}\.{ANY}",), fans_out=())
        case Process.NOVA_SCHEDULER:
            return _Use(
                listens=((wire.DIGEST_TOPIC, ANY),),
                sends=(wire.REPORT_TOPIC,),
                fans_out=(wire.AGENT_TOPIC,),
            )


def _one_of(names: Iterable[str]) -> str:
    # `$` would let a line feed follow.
    return rf"\A({'|'.join(dict.fromkeys(names))})\z"
