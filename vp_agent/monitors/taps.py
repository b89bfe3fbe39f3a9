# SPDX-License-Identifier: Apache-2.0
"""What monitors open on the taps of one server, for as long as they are there."""

from collections.abc import Callable, Collection, Iterable
from typing import Generic, Protocol, TypeVar

from vp_agent.drivers.nics import Nic


class Closable(Protocol):
    def close(self) -> None: ...


Opened = TypeVar("Opened", bound=Closable)


class OnTaps(Generic[Opened]):
    def __init__(self) -> None:
        self._opened: dict[str, Opened] = {}
        """By device."""

    def look(
        self,
        nics: Iterable[Nic],
        open_one: Callable[[str], Opened],
        read: Callable[[Opened], None],
    ) -> str:
        """Read what is open on each tap of `nics`. Returns what cannot be seen, for people; empty:
        nothing. `open_one` and `read` raise OSError."""
        nics = tuple(nics)
        taps = [nic.device for nic in nics if nic.has_tap]
        self._close_all_but(taps)
        problems = [
            f"network interface {nic.device or nic.kind}: unsupported, type {nic.kind} has no tap"
            for nic in nics
            if not nic.has_tap
        ]
        for device in taps:
            try:
                if device not in self._opened:
                    self._opened[device] = open_one(device)
                read(self._opened[device])
            except PermissionError:
                problems.append(
                    f"network interface {device}: CAP_NET_RAW is missing; install "
                    "etc/nova-vp/network.conf as a drop-in of vp-agent.service"
                )
            except OSError as exc:
                self._close_all_but(self._opened.keys() - {device})
                problems.append(f"network interface {device}: {exc.strerror}")
        return "; ".join(problems)

    def _close_all_but(self, devices: Collection[str]) -> None:
        for device in self._opened.keys() - set(devices):
            self._opened.pop(device).close()

    def close(self) -> None:
        self._close_all_but(())
