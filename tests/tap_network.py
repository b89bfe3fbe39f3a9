# SPDX-License-Identifier: Apache-2.0
"""A network of its own for a test: a bridge with an address, and taps that the test reads and
writes as QEMU does."""

import contextlib
import ctypes
import fcntl
import os
import shutil
import socket
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.waiting import wait_until

_TUN = Path("/dev/net/tun")
_OWN_NETWORK = Path("/proc/thread-self/ns/net")
_CLONE_NEWNET = 0x40000000
_TUNSETIFF, _TUNSETPERSIST = 0x400454CA, 0x400454CB
_TAP, _NO_HEADER = 0x0002, 0x1000
_HEADERS = 14 + 20 + 8
BRIDGE, ADDRESS = "br-test", "10.9.0.1"
_NEW_BRIDGE = ["ip", "link", "add", BRIDGE, "type", "bridge"]
_LIBC = ctypes.CDLL(None, use_errno=True)


def missing_for_taps() -> str | None:
    """Why no network with taps can be made here, or None."""
    if os.geteuid() != 0:
        return "a network of its own needs root"
    if shutil.which("ip") is None:
        return "ip is not installed (tools/install-debian-packages)"
    if not os.access(_TUN, os.R_OK | os.W_OK):
        return "there is no /dev/net/tun"
    return None


class NoNetwork(Exception):
    """None can be made here; the message says why."""


class Tap:
    """On the bridge, as the device of a guest whose address is 10.9.0.`number`."""

    def __init__(self, device: str, number: int) -> None:
        self.device = device
        self.mac = f"02:00:00:00:00:{number:02x}"
        self.address = f"10.9.0.{number}"
        self._open()
        ip("link", "set", device, "address", f"02:00:00:00:01:{number:02x}")
        ip("link", "set", device, "master", BRIDGE, "up")
        reach(device, self.address, self.mac)

    def _open(self) -> None:
        self._file = os.open(_TUN, os.O_RDWR | os.O_NONBLOCK)
        request = struct.pack("16sH22x", self.device.encode(), _TAP | _NO_HEADER)
        fcntl.ioctl(self._file, _TUNSETIFF, request)

    def read(self, most: int) -> int:
        """So many packets, or those that wait."""
        count = 0
        with contextlib.suppress(BlockingIOError):
            while count < most:
                os.read(self._file, 1 << 16)
                count += 1
        return count

    def write(self, packet: bytes) -> None:
        """From the guest."""
        os.write(self._file, packet)

    def close(self) -> None:
        """The device is gone with it."""
        os.close(self._file)

    def end_and_begin(self) -> None:
        """The device stays, and what waited in it is gone: QEMU was restarted."""
        fcntl.ioctl(self._file, _TUNSETPERSIST, 1)
        self.close()
        self._open()
        fcntl.ioctl(self._file, _TUNSETPERSIST, 0)
        _wait_for_bridge(self.device)


@contextlib.contextmanager
def own_network() -> Iterator[None]:
    """As `a_network`; a test is skipped where there is none."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(a_network())
        except NoNetwork as exc:
            pytest.skip(str(exc))
        yield


@contextlib.contextmanager
def a_network() -> Iterator[None]:
    """Of this thread and what it starts, with a bridge. Raises NoNetwork."""
    old = os.open(_OWN_NETWORK, os.O_RDONLY)
    if _LIBC.unshare(_CLONE_NEWNET):
        number = ctypes.get_errno()
        os.close(old)
        raise NoNetwork(f"no network namespace can be made: {os.strerror(number)}")
    try:
        ip("link", "set", "lo", "up")
        made = subprocess.run([*_NEW_BRIDGE, "mcast_snooping", "0"], capture_output=True)
        if made.returncode:
            raise NoNetwork(f"no bridge can be made: {made.stderr.decode().strip()}")
        ip("address", "add", f"{ADDRESS}/24", "dev", BRIDGE)
        ip("link", "set", BRIDGE, "up")
        # What the kernel says by itself (snooping does, too) would count with what tests send.
        Path(f"/proc/sys/net/ipv6/conf/{BRIDGE}/disable_ipv6").write_text("1")
        Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")
        yield
    finally:
        if _LIBC.setns(old, _CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), "this thread cannot go back to its network")
        os.close(old)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


def bridge(*words: str) -> str:
    return subprocess.run(["bridge", *words], check=True, capture_output=True, text=True).stdout


def reach(device: str, address: str, mac: str) -> None:
    """The guest behind this tap, without a question that it would have to answer."""
    ip("neigh", "replace", address, "lladdr", mac, "dev", BRIDGE)
    # Not to the other guests too.
    bridge("fdb", "replace", mac, "dev", device, "master", "static")
    _wait_for_bridge(device)


def _wait_for_bridge(device: str) -> None:
    wait_until(
        lambda: "state forwarding" in bridge("link", "show", "dev", device),
        "the bridge sends to the tap",
    )


def send(tap: Tap, packets: int, length: int) -> None:
    send_to(tap.address, packets, length)


def send_to(address: str, packets: int, length: int) -> None:
    """From the host, over the bridge: UDP in frames of this length."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(packets):
            sender.sendto(bytes(length - _HEADERS), (address, 9))
