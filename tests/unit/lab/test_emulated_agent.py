# SPDX-License-Identifier: Apache-2.0
"""The far end of `run`, without the machine: whose command it runs."""

import os
import socket
import subprocess

import pytest

from testbed.emulated import agent


@pytest.fixture
def ends():
    """(near, port)"""
    near, far = socket.socketpair()
    port = agent.Port.__new__(agent.Port)
    port.fd = far.fileno()
    with near, far:
        yield near, port


@pytest.fixture
def sleeper():
    pipe = subprocess.PIPE
    with subprocess.Popen(["sleep", "20"], stdout=pipe, stderr=pipe) as process:
        yield process
        process.kill()


def test_a_command_ends_with_its_near_end(ends, sleeper):
    near, port = ends
    near.close()
    with pytest.raises(agent.NearEndGone):
        agent.stream(port, sleeper)


def test_a_command_ends_where_the_next_near_end_asks_before_the_first_was_seen_to_hang_up(
    ends, sleeper
):
    near, port = ends
    near.sendall(b"{}\n")
    with pytest.raises(agent.NearEndGone):
        agent.stream(port, sleeper)
    assert os.read(port.fd, 9) == b"{}\n"
