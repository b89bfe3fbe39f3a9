# SPDX-License-Identifier: Apache-2.0
"""The real agent of a private libvirt host, told of overlays, and monitors at its socket."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nova_vp.core.types.overlay import Overlay
from nova_vp.overlay_message import overlays_text
from tests.libvirt_host import LibvirtHost
from tests.waiting import wait_until

CONFIG = """\
[agent]
host = test
mode = enforce
interval_s = 0.2
vpmu_directory = {folder}/none
state_directory = {folder}/state
run_directory = {folder}/run
monitors = {monitors}
[policy]
controllers = overlays
[controller_overlays]
credit_s = 2
[bus]
transport_url = fake:/
"""
READY_WITHIN_S = 240.0


class AgentMonitor:
    """One connection to the agent's socket."""

    def __init__(self, folder: Path) -> None:
        """Raises OSError: nobody listens."""
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._socket.connect(str(folder / "run" / "overlay.sock"))
        except OSError:
            self._socket.close()
            raise
        self._answers = self._socket.makefile("rb")

    def send(self, text: bytes) -> None:
        self._socket.sendall(text)

    def answer(self) -> dict[str, Any]:
        return dict(json.loads(self._answers.readline()))

    def ask(self, **call: Any) -> dict[str, Any]:
        self.send(json.dumps(call).encode() + b"\n")
        return self.answer()

    def close(self) -> None:
        self._answers.close()
        self._socket.close()


class OverlayAgent:
    """`env`: of the agent. `monitors`: that it runs itself."""

    def __init__(
        self,
        host: LibvirtHost,
        folder: Path,
        env: Mapping[str, str] | None = None,
        monitors: str = "",
    ) -> None:
        self.folder = folder
        self._inside = host.inside()
        self._env = {**os.environ, **(env or {})}
        self._config = folder / "nova-vp.conf"
        self._config.write_text(CONFIG.format(folder=folder, monitors=monitors))
        (folder / "state").mkdir()
        self.process: subprocess.Popen[bytes] | None = None
        self.monitor: AgentMonitor | None = None

    def tell(self, *overlays: Overlay) -> None:
        """Before it starts."""
        (self.folder / "state" / "overlays.json").write_text(overlays_text(1, overlays))

    def start(self, is_ready: Callable[[], bool]) -> None:
        with (self.folder / "agent.log").open("a") as log:
            self.process = subprocess.Popen(
                self._command("run"), stdout=log, stderr=log, env=self._env
            )

        def is_up() -> bool:
            assert self.process.poll() is None, self.log()[-3000:]
            return is_ready()

        wait_until(is_up, "the agent has journalled the originals", READY_WITHIN_S)
        self._hang_up()
        wait_until(self._connects, "the agent takes calls")

    def log(self) -> str:
        return (self.folder / "agent.log").read_text()

    def _connects(self) -> bool:
        """A killed agent leaves its socket, and nobody listens."""
        try:
            self.monitor = AgentMonitor(self.folder)
        except OSError:
            return False
        return True

    def _command(self, *words: str) -> list[str]:
        agent = [sys.executable, "-m", "vp_agent.cli.main", "--config-file", str(self._config)]
        return [*self._inside, *agent, *words]

    def call(self, verb: str, server: str | None, of: str, **about: Any) -> str:
        """Why it is refused; empty: it is granted."""
        answer = self.monitor.ask(overlay_id=of, verb=verb, server_id=server, **about)
        assert "error" not in answer, answer
        return answer["nack"] or ""

    def status(self) -> dict[str, Any]:
        """As of the last tick."""
        told = subprocess.run(
            self._command("status", "--json"), check=True, capture_output=True, env=self._env
        )
        return dict(json.loads(told.stdout))

    def kill(self) -> None:
        os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)

    def release_expired(self) -> None:
        command = self._command("release", "--expired")
        subprocess.run(command, check=True, timeout=120, env=self._env)

    def close(self) -> None:
        if self.process and self.process.poll() is None:
            self.kill()
        self._hang_up()

    def _hang_up(self) -> None:
        if self.monitor:
            self.monitor.close()
            self.monitor = None
