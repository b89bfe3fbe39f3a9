# SPDX-License-Identifier: Apache-2.0
"""The real Placement service on a loopback port, with SQLite and without keystone."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import requests
from keystoneauth1 import session
from keystoneauth1.adapter import Adapter
from keystoneauth1.token_endpoint import Token

from tests.waiting import wait_until

ROOT = Path(__file__).parents[1]
CONF = """[api]
auth_strategy = noauth2
[placement_database]
connection = sqlite:///{folder}/placement.sqlite
sync_on_startup = true
"""


@contextmanager
def placement(folder: Path) -> Iterator[str]:
    """Its URL while the block runs."""
    (folder / "placement.conf").write_text(CONF.format(folder=folder))
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    argv = [sys.executable, "-m", "testbed.lab.serve", "placement.wsgi.api", "127.0.0.1", port]
    with open(folder / "placement.log", "wb") as log:
        server = subprocess.Popen(
            [*argv, "2"],
            cwd=ROOT,
            env={**os.environ, "OS_PLACEMENT_CONFIG_DIR": str(folder), "PYTHONWARNINGS": "ignore"},
            stdout=log,
            stderr=log,
        )
    url = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        assert server.poll() is None, (folder / "placement.log").read_text()[-2000:]
        with suppress(requests.ConnectionError):
            return requests.get(url, timeout=5).ok
        return False

    try:
        wait_until(answers, "placement to answer", deadline_s=60)
        yield url
    finally:
        server.kill()
        server.wait()


def adapter_of(url: str, microversion: str) -> Adapter:
    """As an administrator, whom the service believes without a password."""
    return Adapter(
        session.Session(auth=Token(url, "admin")),
        service_type="placement",
        endpoint_override=url,
        default_microversion=microversion,
    )
