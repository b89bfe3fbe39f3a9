# SPDX-License-Identifier: Apache-2.0
"""A second implementation of the agents, in memory: for tests here and in other projects.

It behaves as the real ones do, failures included; nothing in production imports it.
"""

from nova_vp.core.types.overlay import CallAnswer, Overlay
from nova_vp.overlay_message import CallMessage, answer_text, read_call, read_overlays
from nova_vp.server_override import read_overrides


class MemoryAgents:
    """Agents that answer at once, unless `failing` says how they fail."""

    def __init__(self) -> None:
        self.modes: dict[str, str] = {}
        self.accepted: list[tuple[str, str]] = []
        self.rejected: list[tuple[str, str, str, str]] = []
        self.undone: list[tuple[str, str]] = []
        self.overrides: list[tuple[str, str]] = []
        self.latency: list[tuple[str, str]] = []
        self.overlays: dict[str, tuple[Overlay, ...]] = {}
        """What each host was told last."""
        self.calls: list[tuple[str, CallMessage]] = []
        self.answers: dict[str, CallAnswer] = {}
        """What each host says to every call; absent: it grants it."""
        self.versions: dict[str, int] = {}
        """Of the overrides that each host obeys."""
        self.failing: dict[str, Exception] = {}

    def set_mode(self, host: str, mode: str) -> None:
        self._fail(host)
        self.modes[host] = mode

    def accept(self, host: str, action_id: str) -> None:
        self._fail(host)
        self.accepted.append((host, action_id))

    def reject(self, host: str, action_id: str, by: str, why: str) -> None:
        self._fail(host)
        self.rejected.append((host, action_id, by, why))

    def undo(self, host: str, action_id: str) -> None:
        self._fail(host)
        self.undone.append((host, action_id))

    def report_latency(self, host: str, text: str) -> None:
        self._fail(host)
        self.latency.append((host, text))

    def tell_overlays(self, host: str, text: str) -> None:
        self._fail(host)
        self.overlays[host] = read_overlays(text)[1]

    def call_overlay(self, host: str, text: str) -> str:
        self._fail(host)
        message = read_call(text)
        self.calls.append((host, message))
        answer = self.answers.get(
            host, CallAnswer("", None, f"done on {host}", message.call.lease_s)
        )
        return answer_text(answer._replace(call_id=message.call.id))

    def set_overrides(self, host: str, text: str) -> int | None:
        self._fail(host)
        version, _ = read_overrides(text)
        if version < self.versions.get(host, 0):
            return self.versions[host]
        self.versions[host] = version
        self.overrides.append((host, text))
        return None

    def _fail(self, host: str) -> None:
        if host in self.failing:
            raise self.failing[host]
