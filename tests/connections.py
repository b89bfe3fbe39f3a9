# SPDX-License-Identifier: Apache-2.0
"""Ending what oslo.messaging's clients leave connected in a process of tests, broker by broker.

Nova and oslo.messaging are imported here first: they warn about themselves and each other, and
warnings are errors in our tests.
"""

import gc
import threading
import warnings
from typing import Any

import pytest

from tests.waiting import wait_until

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from oslo_messaging._drivers import amqpdriver
    from oslo_messaging._drivers.impl_rabbit import Connection

LOOK_UP_EVERY_S = 0.1


def look_up_often(patch: pytest.MonkeyPatch) -> None:
    """Listeners and those who wait for answers; oslo.messaging has them look up every 5 s, when
    nothing comes, to see whether they were told to stop."""
    patch.setattr(amqpdriver, "ACK_REQUEUE_EVERY_SECONDS_MAX", LOOK_UP_EVERY_S)


def end_connections() -> None:
    """Before their broker ends: clients live as long as a process does, and their heartbeats would
    look for the broker until the last test of all has ended, and say so all the time."""
    end_listeners()
    # What an agent's loop in an earlier test has frozen would not be found.
    gc.unfreeze()
    for waiter in _all(amqpdriver.ReplyWaiter):
        waiter.stop()
    for connection in _all(Connection):
        # One that never came to stand has no heartbeat, and cannot be closed.
        if getattr(connection, "_heartbeat_thread", None):
            connection.close()
    wait_until(lambda: not _threads("Rabbit-heartbeat"), "heartbeats to end")
    collect_sockets()


def _all(kind: type[Any]) -> list[Any]:
    return [one for one in gc.get_objects() if type(one) is kind]


def end_listeners() -> None:
    """One of oslo.messaging's that was told to stop takes some time to notice; until then it takes
    what is meant for the next one of its topic."""
    wait_until(lambda: not _threads("end"), "listeners to end")


def _threads(*prefixes: str) -> list[str]:
    return [one.name for one in threading.enumerate() if one.name.startswith(prefixes)]


def collect_sockets() -> None:
    """oslo.messaging leaves its sockets to the garbage collector, which warns; here, not later."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()
