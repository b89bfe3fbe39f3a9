# SPDX-License-Identifier: Apache-2.0
"""Half of a host's servers with a class, and applications that report the latency of those that are
latency-critical, through the broker as vp-api does."""

import random
import shutil
import threading
import time
from contextlib import closing
from pathlib import Path

from nova_vp import controllers, rpcapi
from nova_vp.latency_message import LatencyMessage, latency_text
from nova_vp.signing.keyring import (
    TRUSTED,
    private_key_file,
    public_text,
    read_private_key,
    trusted_lines,
)
from nova_vp.signing.senders import Process, Sender
from tests import identities
from tests.bus_conf import a_conf
from tests.domain_xml import nova_metadata

EVERY_S = 2.0
LC_PROJECT, BE_PROJECT = "a" * 32, "b" * 32
LATENCY_CRITICAL = {
    "vp:class": "latency-critical",
    "vp:latency_target_ms": "10",
    "vp:max_load": "1000",
}
BEST_EFFORT = {"vp:class": "best-effort"}


def uuid_of(number: int) -> str:
    return f"{number:08x}-2222-4333-8444-555555555555"


def is_critical(number: int) -> bool:
    """A quarter of all; another quarter is best-effort."""
    return number % 4 == 0


def metadata_of(number: int) -> str:
    if is_critical(number):
        return nova_metadata(extra_specs=LATENCY_CRITICAL, project_id=LC_PROJECT)
    if number % 4 == 2:
        return nova_metadata(extra_specs=BEST_EFFORT, project_id=BE_PROJECT)
    return nova_metadata()


def configuration() -> str:
    """The controllers that are on without any option, and `latency`."""
    names = [one.name for one in controllers.installed().values() if one.is_default]
    return f"[policy]\ncontrollers = {','.join([*names, 'latency'])}\n"


def keys_in(folder: Path) -> Path:
    """With which the agent believes vp-api, too."""
    keys = Path(shutil.copytree(identities.keys_directory(), folder / "keys"))
    text = public_text(read_private_key(private_key_file(keys, Process.AGENT)).public_key())
    senders = (Sender(process, "ctl1") for process in (Process.SCHEDULER, Process.API))
    (keys / TRUSTED).write_text(trusted_lines((sender, text) for sender in senders))
    return keys


class Applications:
    """Each reports every two seconds, one after the other, until closed."""

    def __init__(self, broker_url: str, host: str, numbers: list[int]) -> None:
        self.sent = 0
        self._bus = identities.api_bus(a_conf(broker_url))
        self._host = host
        self._numbers = numbers
        self._dice = random.Random(1)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._report, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._is_over.set()
        self._thread.join()

    def _report(self) -> None:
        with closing(self._bus):
            api = rpcapi.AgentAPI(self._bus)
            due_s = time.monotonic()
            while not self._is_over.wait(max(0.0, due_s - time.monotonic())):
                number = self._numbers[self.sent % len(self._numbers)]
                api.report_latency(self._host, self._text(number))
                self.sent += 1
                due_s += EVERY_S / len(self._numbers)

    def _text(self, number: int) -> str:
        now_ms = time.time_ns() // 1_000_000
        latency_ms, load = self._dice.uniform(4.0, 9.8), self._dice.uniform(400.0, 900.0)
        message = LatencyMessage(
            uuid_of(number), LC_PROJECT, latency_ms, load, None, now_ms, now_ms
        )
        return latency_text(message)
