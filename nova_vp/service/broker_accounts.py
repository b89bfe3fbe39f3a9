# SPDX-License-Identifier: Apache-2.0
"""RabbitMQ accounts that may do what their sender does, and no more: names, rights, definitions.

An account declares, deletes and reads the queues that are its own by their names, or its program's
where these share one. It declares no exchange, and nothing of ours uses the default exchange, by
which one reaches any queue. What goes where: `nova_vp.queues`.
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from nova_vp import queues, wire
from nova_vp.signing.senders import Process, Sender

ANY = r"[A-Za-z0-9_.:@-]+"
UNIQUE = "[0-9a-f]{32}"
HOST_LIMITS = {"max-connections": 50, "max-channels": 200}
"""Several times what an agent needs. Controllers have any number of processes."""


class _Use(NamedTuple):
    """Regular expressions."""

    queues: tuple[str, ...]
    """It listens to these."""
    reads: str
    """The exchange of what it listens to."""
    writes: tuple[str, ...]
    """Exchanges."""
    keys_read: tuple[str, ...] = ()
    """Routing keys at `queues.TO_HOSTS`."""
    keys_written: tuple[str, ...] = ()


def user_of(sender: Sender) -> str:
    return f"nova-vp.{sender.process}.{sender.host}"


def rights(sender: Sender) -> Mapping[str, str]:
    """`configure`, `write` and `read` of an account, and `topic_write` and `topic_read` at the
    exchange towards hosts: regular expressions as RabbitMQ takes them."""
    use = _use(sender)
    return {
        "configure": _one_of(use.queues),
        # Who binds a queue writes to it.
        "write": _one_of([*map(re.escape, use.writes), *use.queues]),
        "read": _one_of([re.escape(use.reads), *use.queues]),
        "topic_write": _one_of(use.keys_written),
        "topic_read": _one_of(use.keys_read),
    }


def definitions(passwords: Mapping[Sender, str], virtual_host: str) -> dict[str, Any]:
    """For `rabbitmqctl import_definitions`: accounts with their rights."""
    return {
        "users": [
            {
                "name": user_of(sender),
                "password": password,
                "tags": "",
                "limits": HOST_LIMITS if sender.process is Process.AGENT else {},
            }
            for sender, password in passwords.items()
        ],
        **rights_definitions(passwords, virtual_host),
    }


def rights_definitions(senders: Iterable[Sender], virtual_host: str) -> dict[str, Any]:
    """The same of accounts that are there, which keep their passwords."""
    accounts = [(user_of(sender), rights(sender)) for sender in senders]
    return {
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
                "exchange": queues.TO_HOSTS,
                "write": granted["topic_write"],
                "read": granted["topic_read"],
            }
            for user, granted in accounts
        ],
    }


def _use(sender: Sender) -> _Use:
    own = re.escape(sender.host)
    answers = rf"{wire.ANSWER_TOPIC}\.{sender.process}\.{own}\.{UNIQUE}"
    match sender.process:
        case Process.AGENT:
            commands = rf"{wire.AGENT_TOPIC}\.{own}"
            return _Use(
                (commands, answers),
                queues.TO_HOSTS,
                (queues.TO_SERVICES,),
                keys_read=(wire.AGENT_TOPIC, commands, answers),
            )
        case Process.SCHEDULER:
            return _Use(
                (*queues.SHARED, answers),
                queues.TO_SERVICES,
                (queues.TO_SERVICES, queues.TO_HOSTS),
                keys_written=(
                    rf"{wire.AGENT_TOPIC}(\.{ANY})?",
                    rf"{wire.ANSWER_TOPIC}\.{Process.AGENT}\.{ANY}",
                ),
            )
        case Process.API:
            return _Use(
                (answers,),
                queues.TO_SERVICES,
                (queues.TO_HOSTS,),
                keys_written=(rf"{wire.AGENT_TOPIC}\.{ANY}",),
            )
        case Process.NOVA_SCHEDULER:
            return _Use(
                (rf"{wire.DIGEST_TOPIC}\.{own}\.{UNIQUE}",),
                queues.TO_SERVICES,
                (queues.TO_SERVICES, queues.TO_HOSTS),
                keys_written=(wire.AGENT_TOPIC,),
            )


def _one_of(names: Iterable[str]) -> str:
    # `$` would let a line feed follow.
    return rf"\A({'|'.join(names)})\z"
