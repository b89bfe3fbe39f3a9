# SPDX-License-Identifier: Apache-2.0
"""A private RabbitMQ and MariaDB, one for many tests since each takes seconds to start.

Nova and oslo.messaging are imported here first: they warn about themselves and each other, and
warnings are errors in our tests.
"""

import gc
import threading
import warnings
from collections.abc import Iterator

import pytest

from tests.mariadb import MariaDB
from tests.rabbitmq import RabbitMQ
from tests.waiting import wait_until

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import oslo_messaging  # noqa: F401


@pytest.fixture(scope="module")
def rabbitmq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RabbitMQ]:
    """A test that stops it starts it again."""
    broker = RabbitMQ(tmp_path_factory.mktemp("rabbitmq"))
    try:
        broker.start()
        yield broker
        # A listener of oslo.messaging that was told to stop takes up to 5 s to notice.
        wait_until(lambda: not any(t.name == "end" for t in threading.enumerate()), "listeners")
        collect_sockets()
    finally:
        broker.close()


def collect_sockets() -> None:
    """oslo.messaging leaves its sockets to the garbage collector, which warns; here, not later."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gc.collect()


@pytest.fixture(scope="session")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDB]:
    server = MariaDB(tmp_path_factory.mktemp("mariadb"))
    try:
        server.start()
        yield server
    finally:
        server.stop()
