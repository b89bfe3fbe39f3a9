# SPDX-License-Identifier: Apache-2.0
"""Overlays and their calls to an agent, over the bus: what they come to in the real core.

What is refused changes nothing, what is told is what the next start reads, floors hold, and once
all leases are over nothing is left behind.
"""

import json
import threading
from pathlib import Path
from typing import Any

from nova_vp import controllers, wire
from nova_vp.core.types.knob import CpuWeight, EmulatorWeight, Knob, MemorySize
from nova_vp.core.types.overlay import Call, Direction, Overlay, Verb
from nova_vp.overlay_message import overlays_text
from nova_vp.server_override import REMEMBERED_AHEAD_MS
from nova_vp.signing.senders import Process
from tests.fuzz import seeds
from tests.fuzz.agents import a_control, wall_clock
from tests.fuzz.dice import Dice
from tests.fuzz.oracle import expect
from tests.fuzz.subject import REFUSED, Bus
from tests.identities import call_of
from tests.policies import a_policy
from tests.unit.core.build import CHASE, COMPUTE, STREAM, Host, nodes_of, uuid_of
from vp_agent.loop.command_handler import CommandHandler
from vp_agent.loop.command_server import OverlayEndpoint
from vp_agent.loop.host_overlays import HostOverlays
from vp_agent.loop.state import StateFolder

NAME = "overlays"
CALL = "call_overlay"
WEIGHT, MEMORY_KIB, FLOOR = 100, 98304, 0.25
CPUS = 6
"""Of an LLC domain."""
LONGEST_LEASE_S, TICK_S = 300.0, 10.0


def a_host() -> Host:
    """Two servers in each of two LLC domains, with CPUs to lend."""
    named = tuple(name for name in (NAME,) if name in controllers.installed())
    host = Host(nodes_of(0, 1, cpus=CPUS), a_policy(controllers=named), knobs=frozenset(Knob))
    for number, rates in enumerate((CHASE, STREAM, COMPUTE, COMPUTE)):
        host.add(
            f"s{number}",
            rates,
            cpus=set(range(CPUS * (number % 2), CPUS * (number % 2) + CPUS)),
            vcpus=2,
            cap_floor_ratio=FLOOR,
            cpu_weight=CpuWeight(WEIGHT),
            emulator_weight=EmulatorWeight(WEIGHT),
            memory_size=MemorySize(MEMORY_KIB),
            memory_used_kib=MEMORY_KIB // 2,
        )
    host.ticks(2)
    return host


SERVERS = tuple(uuid_of(f"s{number}") for number in range(4))
GOOD_CALLS: tuple[tuple[Verb, dict[str, Any]], ...] = (
    (Verb.TRIGGER, {"guest_uuid": SERVERS[0]}),
    (Verb.TUNE, {"guest_uuid": SERVERS[1], "direction": Direction.UP}),
    (Verb.BORROW, {"guest_uuid": SERVERS[2], "cpus": 1}),
)
"""That nothing is in the way of on a host at rest."""


class Answering:
    """The agent's tick, while somebody waits for its answer."""

    def __init__(self, control: CommandHandler, host: Host) -> None:
        self._control, self._host = control, host
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._raised: Exception | None = None

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *exc: object) -> None:
        self._is_over.set()
        self._control.calls.wake()
        self._thread.join()
        if self._raised:
            raise self._raised

    def _run(self) -> None:
        while not self._is_over.is_set():
            self._control.calls.wait(1.0)
            try:
                self._answer()
            except Exception as exc:  # it is the fuzzer's to tell
                self._raised = exc
                return

    def _answer(self) -> None:
        calls = self._control.calls.take()
        if calls:
            self._host.overlays = dict(self._control.overlays.by_id)
            self._control.calls.answer(self._host.answer(*calls).answers)


class OverlayBus:
    name, weight = "overlay-bus", 8

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "overlay-state"
        self._control = a_control(self._folder)
        self._bus = Bus([OverlayEndpoint(self._control, wall_clock)])
        self._host = a_host()

    def make(self, dice: Dice) -> Any:
        method = dice.pick(("set_overlays", *[CALL] * 9))
        message = seeds.a_call(dice, SERVERS) if method == CALL else seeds.overlays(dice, SERVERS)
        arguments = {"text": dice.json_text(dice.bent(message, dice.pick((0, 0, 0, 1, 2))))}
        return [method, dice.bent(arguments) if dice.is_so(0.05) else arguments]

    def take(self, payload: Any) -> str:
        method, arguments = payload
        arguments = arguments if isinstance(arguments, dict) else {}
        before = self._control.overlays.told
        with Answering(self._control, self._host):
            call = call_of(Process.API)
            outcome = self._bus.send(method, arguments, (wire.BadMessage,), call)
        if outcome == REFUSED or method == CALL:
            expect(self._control.overlays.told == before, f"{method} changed what was told")
        self._check_told()
        self._host.tick()
        self._check_floors()
        return outcome

    def _check_told(self) -> None:
        told = self._control.overlays.told
        again = HostOverlays(StateFolder(str(self._folder)), wall_clock).told
        expect(again == told, "other overlays are kept")
        ahead_ms = told.version - seeds.NOW_MS
        expect(ahead_ms <= REMEMBERED_AHEAD_MS, f"version {told.version} is remembered")
        json.dumps(sorted(told.by_id))

    def _check_floors(self) -> None:
        for guest in self._host.guests.values():
            expect(guest.quota.cores >= FLOOR - 1e-6, f"{guest.name} is below its floor: {guest}")
            least_kib = (guest.memory_used_kib or 0) * 11 // 10
            expect(guest.memory_size.kib >= least_kib, f"{guest.name} has too little memory")
            expect(bool(guest.placement), f"{guest.name} runs nowhere")

    def settle(self) -> None:
        """Once every lease is over, all is as it was, and the next overlays and calls are heard."""
        self._end_leases()
        self._tell()
        if controllers.installed().keys() >= {NAME}:
            self._grant()
            self._end_leases()

    def _tell(self) -> None:
        whole = Overlay(seeds.OVERLAYS[0], "all", seeds.PROJECT, frozenset(SERVERS))
        text = overlays_text(self._control.overlays.told.version + 1, [whole])
        self._bus.send("set_overlays", {"text": text}, (wire.BadMessage,), call_of(Process.API))
        told = self._control.overlays.by_id
        expect(told == {whole.id: whole}, f"overlays are ignored: {told}")
        self._check_told()

    def _grant(self) -> None:
        self._host.overlays = dict(self._control.overlays.by_id)
        for verb, fields in GOOD_CALLS:
            call = Call(f"good-{verb.value}", seeds.OVERLAYS[0], verb, **fields)
            (answer,) = self._host.answer(call).answers
            expect(answer.nack is None, f"a good {verb.value} is refused: {answer}")
        expect(self._host.applied, "nothing was done for good calls")
        expect(self._host.state.loans, "nothing was lent to a good call")

    def _end_leases(self) -> None:
        self._host.answer()
        for _ in range(round(LONGEST_LEASE_S / TICK_S) + 2):
            self._host.tick(TICK_S)
        for guest in self._host.guests.values():
            expect(guest.cpu_weight == CpuWeight(WEIGHT), f"{guest.name} keeps {guest.cpu_weight}")
            threads = guest.emulator_weight
            expect(threads == EmulatorWeight(WEIGHT), f"{guest.name} keeps {threads} for its I/O")
            expect(guest.quota.cores == 1.0, f"{guest.name} keeps {guest.quota}")
            expect(guest.memory_size.kib == MEMORY_KIB, f"{guest.name} keeps {guest.memory_size}")
        expect(not self._host.state.loans, f"lent for ever: {self._host.state.loans}")
        expect(not self._host.applied, f"held for ever: {self._host.applied}")
