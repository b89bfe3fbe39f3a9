# SPDX-License-Identifier: Apache-2.0
"""What systemd hears of a service."""

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from nova_vp.service.sd_notify import READY, WATCHDOG, notify


@pytest.fixture(params=["a path", "an abstract name"])
def systemd(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[socket.socket]:
    path = str(tmp_path / "notify") if request.param == "a path" else f"\0nova-vp-{tmp_path.name}"
    monkeypatch.setenv("NOTIFY_SOCKET", path.replace("\0", "@"))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(path)
        sock.settimeout(20)
        yield sock


def fill(systemd: socket.socket) -> None:
    """Until one who sends would have to wait."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as another:
        another.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                another.sendto(b"", systemd.getsockname())


def test_states_come_in_one_message(systemd: socket.socket) -> None:
    notify(READY, WATCHDOG)
    assert systemd.recv(100) == b"READY=1\nWATCHDOG=1"


def test_a_systemd_that_does_not_listen_holds_nobody_up(systemd: socket.socket) -> None:
    notify(WATCHDOG)
    fill(systemd)
    notify(WATCHDOG)  # Would wait for ever.
    assert systemd.recv(100) == b"WATCHDOG=1"


@pytest.mark.parametrize("address", [None, "", "/nowhere/notify"])
def test_where_nobody_is_to_be_told_nothing_happens(
    address: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NOTIFY_SOCKET", raising=False)
    if address is not None:
        monkeypatch.setenv("NOTIFY_SOCKET", address)
    notify(READY)
