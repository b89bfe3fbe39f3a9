# SPDX-License-Identifier: Apache-2.0
"""A private memcached for tests: own port, gone afterwards."""

import contextlib
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

from tests.rabbitmq import free_port
from tests.waiting import answers_on, wait_until


class Memcached(NamedTuple):
    address: str
    pid: int


@contextlib.contextmanager
def memcached() -> Iterator[Memcached]:
    port = free_port()
    argv = ["memcached", "-u", "root", "-l", "127.0.0.1", "-p", str(port), "-m", "16"]
    process = subprocess.Popen(argv)
    try:
        wait_until(lambda: answers_on(port), "memcached")
        yield Memcached(f"127.0.0.1:{port}", process.pid)
    finally:
        process.kill()
        process.wait()
