# SPDX-License-Identifier: Apache-2.0
"""Orders to an agent: over the bus, and over its control socket.

What is refused changes nothing, what is accepted is what the next start reads, no guest is held for
ever, and the next order of the service is obeyed whatever came before.
"""

import json
import socket
import threading
from pathlib import Path
from typing import Any

from nova_vp import wire
from nova_vp.core.types.guest import Guest
from nova_vp.core.types.mode_levels import ModeLevel, SetMode
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.service_level import ServiceClass
from nova_vp.server_override import NO_OVERRIDE, REMEMBERED_AHEAD_MS, ServerOverride
from nova_vp.signing.senders import Process
from tests.decisions import a_decision, a_guest, an_action, an_eventful_view
from tests.fuzz import seeds
from tests.fuzz.dice import UUIDS, Dice
from tests.fuzz.oracle import expect, is_finite
from tests.fuzz.subject import ACCEPTED, REFUSED, Bus
from tests.identities import call_of
from tests.override_service import OverrideService
from vp_agent.commands import NotAdvising, NotInForce, UnknownAction
from vp_agent.loop.command_handler import CommandHandler
from vp_agent.loop.command_server import (
    MAX_SPREAD_S,
    Endpoint,
    FactsEndpoint,
    MigrationEndpoint,
)
from vp_agent.loop.control_socket import RunFolder, Server
from vp_agent.loop.host_mode import HostMode
from vp_agent.loop.migration_holds import MOST_HOLD_S, MigrationHolds
from vp_agent.loop.overrides import ServerOverrides
from vp_agent.loop.recorder import CannotRecord, Recorder
from vp_agent.loop.state import StateFolder
from vp_agent.loop.told_facts import STALE_AFTER_S, ToldFacts

STANDING = "99999999-9999-5999-8999-999999999999"
REQUEST = "req-11111111-1111-4111-8111-111111111111"
SERVICE_OVERRIDES = "service overrides"
"""No method: the service overrides something, by its own numbers."""
METHODS: dict[str, dict[str, Any]] = {
    "set_mode": {"mode": "enforce"},
    "accept": {"action_id": "p1"},
    "undo": {"action_id": "a1"},
    "set_overrides": {},
    "set_facts": {},
    "set_modes": {},
    "report_latency": {},
    SERVICE_OVERRIDES: {},
    "republish": {"within_s": 5.0},
    "republish_digest": {"within_s": 5},
    "prepare_migration": {"escalation_id": STANDING, "uuid": UUIDS[0], "hold_s": 900.0},
    "end_migration": {
        "escalation_id": STANDING,
        "uuid": UUIDS[0],
        "outcome": "completed",
        "detail": "",
    },
}
REFUSALS: dict[str, tuple[type[Exception], ...]] = {
    "set_mode": (ValueError,),
    "accept": (UnknownAction, NotAdvising),
    "undo": (UnknownAction, NotInForce),
}
"""What their callers are told; those of the others wire.BadMessage. The disk is well here."""
NOW_S = 1000.0
ENFORCED = (SetMode(Mode.ENFORCE, ModeLevel.HOST),)
ORDERED = UUIDS[3]
"""The server that the service overrides something of."""


def wall_clock() -> float:
    """The agent's and the service's."""
    return seeds.NOW_MS / 1000


class Publisher:
    """Implements `vp_agent.loop.command_server.Republishing`."""

    def republish(self, within_s: float) -> None:
        expect(is_finite(within_s) and 0 <= within_s <= MAX_SPREAD_S, f"spread over {within_s} s")

    republish_digest = republish


def guests() -> tuple[Guest, ...]:
    return tuple(
        a_guest(n, uuid=uuid, name=f"web-{n}", service_class=ServiceClass.LATENCY_CRITICAL)
        for n, uuid in enumerate(UUIDS[:4])
    )


def a_control(folder: Path, facts: ToldFacts | None = None) -> CommandHandler:
    control = CommandHandler(StateFolder(str(folder)), Mode.ADVISE, wall_clock, facts)
    control.show(a_decision(an_eventful_view(1), proposals=(an_action("p1"),)))
    control.servers.mark(guests(), ENFORCED, NOW_S)
    control.latency.of(guests(), NOW_S)
    return control


class AgentBus:
    name, weight = "agent-bus", 16

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "state"
        self._facts = ToldFacts(StateFolder(str(self._folder)), wall_clock)
        self._control = a_control(self._folder, self._facts)
        self._migrations = MigrationHolds(lambda id: id == STANDING, lambda id, outcome: None)
        self._bus = Bus(
            [
                Endpoint(self._control, Publisher()),
                MigrationEndpoint(self._migrations),
                FactsEndpoint(self._facts),
            ]
        )
        self._service = OverrideService(wall_clock)

    def make(self, dice: Dice) -> Any:
        method = dice.pick((*METHODS, "set_overrides", "set_overrides"))
        arguments = METHODS[method]
        if method == SERVICE_OVERRIDES:
            return [method, arguments, {}]
        if method == "set_overrides":
            arguments = {"text": dice.json_text(dice.bent(seeds.overrides(dice)))}
        if method == "report_latency":
            arguments = {"text": dice.json_text(dice.bent(seeds.a_latency(dice)))}
        if method == "set_modes":
            arguments = {"text": dice.json_text(dice.bent(seeds.modes(dice)))}
        if method == "set_facts":
            arguments = {"text": dice.json_text(dice.bent(seeds.nova_facts(dice)))}
        if not arguments.get("text") or dice.is_so(0.05):
            arguments = dice.bent(arguments)
        request = dice.pick((REQUEST, REQUEST, "", "\x00 x" * 100))
        return [method, arguments if isinstance(arguments, dict) else {}, request]

    def take(self, payload: Any) -> str:
        method, arguments, request = payload
        if method == SERVICE_OVERRIDES:
            self._order()
            return ACCEPTED
        before = self._state()
        with self._ticks(method):
            call = call_of(Process.API)._replace(request_id=request)
            refusals = REFUSALS.get(method, (wire.BadMessage,))
            outcome = self._bus.send(method, arguments, refusals, call)
        after = self._state()
        if outcome == REFUSED:
            expect(before == after, f"a refused {method} changed {before} to {after}")
        else:
            self._check(method)
        return outcome

    def _state(self) -> tuple[Any, ...]:
        latency = self._control.latency.of(guests(), NOW_S)
        return self._control.commanded(), self._control.servers.told, self._facts.told, latency

    def _check(self, method: str) -> None:
        book = self._control.servers
        if method == "report_latency":
            for one in self._control.latency.of(guests(), NOW_S).values():
                is_sane = (
                    wire.LEAST_LATENCY_MS <= one.latency_ms <= wire.MOST_LATENCY_MS
                    and (one.load or 0) >= 0
                )
                expect(is_sane and is_finite(one.latency_ms), f"{one} is used")
        if method == "set_overrides":
            kept_book = ServerOverrides(StateFolder(str(self._folder)), wall_clock)
            expect(kept_book.told == book.told, "another book is kept")
            version = book.told.version
            expect(type(version) is int, "the version is no whole number")
            ahead_ms = version - seeds.NOW_MS
            expect(ahead_ms <= REMEMBERED_AHEAD_MS, f"version {version} is remembered")
            json.dumps(book.rows())
        if method == "set_facts":
            again = ToldFacts(StateFolder(str(self._folder)), wall_clock).told
            is_stale = seeds.NOW_MS / 1000 - self._facts.told.read_at > STALE_AFTER_S
            expect(is_stale or again == self._facts.told, "other facts are kept")
            json.dumps(self._facts.as_status())
        if method in ("set_mode", "set_modes"):
            kept = HostMode(StateFolder(str(self._folder)), Mode.ADVISE, self._facts, wall_clock)
            expect(kept.now() == self._control.mode.now(), "other modes are kept")
            ahead_ms = kept.now().told.version - seeds.NOW_MS
            expect(ahead_ms <= REMEMBERED_AHEAD_MS, f"modes of version {ahead_ms} are remembered")

    def settle(self) -> None:
        marked = self._control.servers.mark(guests(), ENFORCED, NOW_S + 60)
        expect(len(marked) == len(guests()), "guests are lost")
        for uuid in UUIDS:
            held = self._migrations.mark((a_guest(1, uuid=uuid),), NOW_S + MOST_HOLD_S + 1)
            expect(held[0].unmanaged is None, f"{uuid} is held for ever")
        for _ in range(2):
            self._order()

    def _order(self) -> None:
        """Something else than what stands."""
        told = self._control.servers.told
        now = told.servers.get(ORDERED, NO_OVERRIDE)
        wanted = ServerOverride(opt_out=not now.opt_out)
        newer = self._service.order(self._control.take_overrides, ORDERED, wanted)
        expect(newer is None, f"overrides of the service are ignored for version {newer}")
        obeyed = self._control.servers.told.servers.get(ORDERED)
        expect(obeyed == wanted, f"the service set {wanted}, and the agent has {obeyed}")

    def _ticks(self, method: str) -> "_Ticks":
        return _Ticks(self._migrations if method == "prepare_migration" else None)


class _Ticks:
    """The agent's, while somebody waits for them."""

    def __init__(self, migrations: MigrationHolds | None) -> None:
        self._migrations = migrations
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        if self._migrations:
            self._thread.start()

    def __exit__(self, *exc: object) -> None:
        self._is_over.set()
        if self._migrations:
            self._thread.join()

    def _run(self) -> None:
        assert self._migrations is not None
        while not self._is_over.wait(0.0005):
            self._migrations.carry_out(lambda uuid: "", NOW_S)


class AgentSocket:
    name, weight = "agent-socket", 3

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "run"
        self._folder.mkdir()
        self._control = a_control(folder / "socket-state")
        self._recorder = Recorder("here", 1 << 20)
        run = RunFolder(str(self._folder))
        self._server = Server(run, self._control, lambda: {"well": True}, self._record)
        self._path = str(run.socket)

    def _record(self, path: str) -> None:
        """Nowhere else: this may run as root."""
        if path and Path(path).parent != Path("/dev/shm/nova-vp-fuzz"):
            raise CannotRecord("not here")
        self._recorder.order(path and str(self._folder / "tape"))

    def make(self, dice: Dice) -> Any:
        line = {
            "server": dice.pick((*UUIDS[:3], "web-1", "web-9")),
            "mode": "advise",
            "priority": 1,
        }
        value = dice.pick(("enforce", "p1", "a1", "", "/dev/shm/nova-vp-fuzz/tape"))
        do = dice.pick(("status", "mode", "accept", "undo", "override", "override", "record"))
        if do == "override":
            value = dice.json_text(dice.bent(line))
        order = dice.bent({"do": do, "value": value}, dice.pick((0, 0, 1, 2)))
        if isinstance(order, dict) and order.get("do") == "release":
            order["do"] = "status"  # It waits for the tick.
        text = dice.json_text(order).encode("utf-8", "surrogatepass").replace(b"\n", b" ")
        return (dice.torn(text) if dice.is_so(0.1) else text).replace(b"release", b"mode")

    def take(self, payload: Any) -> str:
        before = self._control.commanded(), self._control.servers.rows()
        answer = self._ask(payload)
        if answer is None:  # It gave up on a line that has no end.
            return REFUSED
        told = json.loads(answer, parse_constant=_refuse)
        expect(set(told) in ({"ok"}, {"error"}), f"it answers {told}")
        if "error" in told:
            expect("failed in the agent" not in told["error"], told["error"])
            after = self._control.commanded(), self._control.servers.rows()
            expect(before == after, "what was refused changed something")
            return REFUSED
        return ACCEPTED

    def _ask(self, line: bytes) -> bytes | None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(20)
            try:
                sock.connect(self._path)
                sock.sendall(line + b"\n")
                sock.shutdown(socket.SHUT_WR)
                with sock.makefile("rb") as file:
                    return file.readline() or None
            except (BrokenPipeError, ConnectionResetError):
                return None

    def settle(self) -> None:
        for priority in (2, 3):
            order = json.dumps({"server": ORDERED, "priority": priority})
            good = json.dumps({"do": "override", "value": order}).encode()
            expect(self.take(good) == ACCEPTED, "a good order is refused")
            rows = self._control.servers.rows()
            here = [row["here"] for row in rows if row["uuid"] == ORDERED]
            expect(here and here[0]["priority"] == priority, f"it has {here}")

    def close(self) -> None:
        self._recorder.close()
        self._server.close()


def _refuse(name: str) -> None:
    raise ValueError(name)
