# SPDX-License-Identifier: Apache-2.0
"""Lives of an agent, from its first start to its last stop: the real loop, executor and journal on
a host in memory, whose servers come, go, reboot and are changed by others, while operators change
modes, libvirt fails, the clock jumps, and the agent is killed between any two calls of a driver.

After each tick every value of a server is in the journal, or is what Nova or others gave. Leases
end, mode observe changes nothing, and once the agent has stopped nothing of it is left.
"""

import contextlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from nova_vp import controllers
from nova_vp.core.types.action import Action
from nova_vp.core.types.cpu_time import CpuTimes
from nova_vp.core.types.decision import Decision
from nova_vp.core.types.guest import Guest, Isolation, Unmanaged
from nova_vp.core.types.knob import CpuWeight, Knob, Quota, Value
from nova_vp.core.types.policy import Mode
from nova_vp.core.types.reason import REVOKED
from nova_vp.core.types.service_level import ServiceClass
from tests.fuzz.core import check_told
from tests.fuzz.dice import Dice
from tests.fuzz.oracle import expect
from tests.fuzz.subject import ACCEPTED, REFUSED
from tests.policies import a_policy
from tests.unit.agent_host import World
from tests.unit.core.build import CHASE, CHASE_HURT, COMPUTE, STREAM, Rates
from vp_agent.cli.release import Release
from vp_agent.commands import CannotOverride, NotAdvising, NotInForce, UnknownAction
from vp_agent.drivers.base import HostUnavailable
from vp_agent.drivers.fake import FakeActuator, FakeGuests, FakeJournal
from vp_agent.loop.control_socket import RunFolder
from vp_agent.loop.executor import Executor
from vp_agent.loop.state import StateFolder
from vp_agent.wiring import by_knob

RATES = (COMPUTE, CHASE, CHASE_HURT, STREAM, Rates(mips=0.0, cores=0.0), Rates(900.0, cores=1.0))
FLOOR = 0.25
KINDS: tuple[Mapping[str, Any], ...] = (
    {},
    {"cap_floor_ratio": FLOOR},
    {"cap_floor_ratio": FLOOR, "isolation": Isolation.STRICT},
    {"cap_floor_ratio": FLOOR, "service_class": ServiceClass.BEST_EFFORT},
    {"service_class": ServiceClass.LATENCY_CRITICAL, "latency_target_ms": 10.0},
    {"refuses_help": True, "quota": Quota(50_000), "cap_floor_ratio": FLOOR},
)
"""Of servers."""
MODES = tuple(Mode)
SPANS_S = (1.0, 2.0, 31.0, 65.0, 3600.0)
ENDS = ("stopped", "released", "restarted")
GIVEN: Mapping[Knob, Callable[[Guest], Value]] = {
    Knob.PLACEMENT: lambda guest: guest.cpus,
    Knob.CPU_CAP: lambda guest: guest.quota,
    Knob.CPU_WEIGHT: lambda guest: guest.cpu_weight,
    Knob.MEMORY_SIZE: lambda guest: guest.memory_size,
    Knob.EMULATOR_WEIGHT: lambda guest: guest.emulator_weight,
}
"""What others than the agent may have given; where memory lies is never exactly as asked."""
_MANAGED = (None, Unmanaged.FOREIGN_CHANGE)
LEASED = (Knob.CPU_CAP, Knob.CPU_WEIGHT, Knob.MEMORY_SIZE, Knob.EMULATOR_WEIGHT)
LEASE_S = 60.0
MOST_SERVERS = 6
QUIET_S = 40
"""Until the last memory is back."""


class Killed(BaseException):
    """SIGKILL."""


class Mortal:
    """A driver that may die before or after a call that changes something."""

    def __init__(self, life: "AgentLife", driver: Any) -> None:
        self._life, self._driver = life, driver

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._driver, name)
        if name not in ("write", "drop", "apply", "restore"):
            return method

        def call(*arguments: Any) -> Any:
            self._life.may_die()
            method(*arguments)
            self._life.may_die()

        return call


class AgentLife:
    def __init__(self, folder: Path, payload: Any) -> None:
        installed = controllers.installed().keys()
        policy = a_policy(controllers=installed & set(payload["controllers"]), **payload["numbers"])
        self.world = World(folder, policy=policy, mode=Mode(payload["mode"]))
        self.mode: Mode | None = self.world.mode
        """The host's own."""
        self.own_modes: dict[str, Mode | None] = {}
        """Of servers."""
        self.calls_left: int | None = None
        """Until the agent is killed, before or after."""
        self.given: dict[tuple[str, Knob], set[Value]] = {}
        """What others gave: several, where the agent has not seen the last one yet."""
        self.waiting: set[str] = set()
        """Servers that wait for a CPU half of the time."""
        self.observed_for_s = 0.0
        """Without a break, with a host that takes changes."""
        self.actions = 0
        self.start()
        for kind in payload["servers"]:
            self.arrive(kind)

    @property
    def servers(self) -> list[str]:
        return list(self.world.host.guests)

    def server(self, value: int) -> str:
        return self.servers[value % len(self.servers)]

    def may_die(self) -> None:
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left < 0:
                self.calls_left = None
                raise Killed

    def arrive(self, kind: int) -> None:
        if len(self.servers) >= MOST_SERVERS:
            return
        uuid = self.world.boot(
            RATES[kind % len(RATES)],
            memory_by_node=((kind % 2, 65536),),
            **KINDS[kind % len(KINDS)],
        )
        if kind % 5 == 0:  # Somebody has pinned it before the agent sees it.
            self.world.host.change(uuid, placement=frozenset({kind % 8}))
        self.note_given(uuid)

    def note_given(self, uuid: str) -> None:
        guest = self.world.host.guests[uuid].guest
        for knob, value_of in GIVEN.items():
            self.given[uuid, knob] = {value_of(guest)}

    def change(self, uuid: str, knob: Knob, **fields: Any) -> None:
        """By somebody else."""
        self.world.host.change(uuid, **fields)
        self.given[uuid, knob].add(GIVEN[knob](self.world.host.guests[uuid].guest))

    def pass_by(self, events: list[Any]) -> None:
        for name, value in events:
            EVENTS[name](self, value)
            self.tick()

    def tick(self, span_s: float = 1.0) -> None:
        world = self.world
        for uuid in self.servers:
            self._use_cpu(uuid, span_s)
        world.now_s += span_s - 1.0
        try:
            decision = world.tick()
        except HostUnavailable:
            expect(not world.host.is_up, "the host is up")
            self.observed_for_s = 0.0
            return
        except Killed:
            self.start()
            self.observed_for_s = 0.0
            return
        self.actions += len(decision.actions)
        self._check_mode(decision, span_s)
        if decision.actions:
            check_told(decision)
        self._check_runs()
        self._check_exempt()
        self._check_leases()
        self._check_foreign(decision)
        self.check()

    def _use_cpu(self, uuid: str, span_s: float) -> None:
        guest, rates = self.world.host.guests[uuid].guest, self.world.rates[uuid]
        ran_ns = round(min(rates.cores, guest.quota.cores) * span_s * 1e9)
        delay_ns = ran_ns if uuid in self.waiting else 0
        old = guest.cpu_times or CpuTimes(0, 0, 0, guest.generation)
        self.world.host.change(
            uuid,
            cpu_time_ns=guest.cpu_time_ns + ran_ns,
            cpu_times=CpuTimes(
                old.ran_ns + ran_ns, old.run_delay_ns + delay_ns, 0, guest.generation
            ),
        )

    def start(self) -> None:
        host = self.world.host
        self.world.start_agent(Mortal(self, FakeJournal(host)), Mortal(self, FakeActuator(host)))

    def _check_mode(self, decision: Decision, span_s: float) -> None:
        refuses = any(entry.refuses for entry in self.world.host.guests.values())
        is_observed = decision.mode is Mode.OBSERVE
        if is_observed:
            done = [
                action
                for action in decision.actions
                if action.reason is not REVOKED and not self._may_touch(action)
            ]
            expect(not done, f"mode observe does {done}")
        is_still = is_observed and not refuses and not self._freed()
        self.observed_for_s = self.observed_for_s + span_s if is_still else 0.0

    def _may_touch(self, action: Action) -> bool:
        return {change.guest_uuid for change in action.changes} <= self._freed()

    def _freed(self) -> set[str]:
        """Where no mode is set for the host, a server's own applies alone."""
        if self.mode is not None:
            return set()
        return {uuid for uuid, mode in self.own_modes.items() if mode is Mode.ENFORCE}

    def set_mode(self, mode: Mode | None) -> None:
        self.world.control.set_mode(mode)
        self.mode = mode

    def check(self) -> None:
        for uuid, entry in self.world.host.guests.items():
            for knob, value_of in GIVEN.items():
                held = entry.journal.of(knob) if entry.journal else None
                now, given = value_of(entry.guest), self.given[uuid, knob]
                if held is None:
                    expect(now in given, f"{knob.value} is {now}, and not {given}")
                    self.given[uuid, knob] = {now}
                    continue
                expect(held.original in given, f"the original is {held.original}, not {given}")
            self._check_bounds(entry.guest)

    def _check_leases(self) -> None:
        now_s, host = self.world.now_s, self.world.agent._host
        for uuid, applied in host.journal.read().items():
            for held in applied.held if applied.epoch == host.epoch else ():
                if held.knob in LEASED and held.value != held.original:
                    expect(held.until_s is not None, f"{held.knob.value} has no lease")
                    is_over = held.until_s <= now_s or self.observed_for_s > LEASE_S + 2
                    refuses = self.world.host.guests[uuid].refuses
                    expect(refuses or not is_over, f"{held.knob.value} outlives its lease")

    def _check_runs(self) -> None:
        """What another run set goes back in the first tick, except while a server arrives."""
        epoch = StateFolder(str(self.world.folder)).last_epoch()
        for entry in self.world.host.guests.values():
            is_arriving = entry.guest.unmanaged is Unmanaged.MIGRATING
            is_ours = entry.journal is None or entry.journal.epoch == epoch
            why = f"{entry.journal} is of another run than {epoch}"
            expect(is_ours or is_arriving or bool(entry.refuses), why)

    def _check_exempt(self) -> None:
        for uuid, entry in self.world.host.guests.items():
            if self.world.control.servers.is_exempt(uuid) and not entry.refuses and entry.journal:
                held = [one for one in entry.journal.held if one.value != one.original]
                expect(not held, f"{entry.guest.name} is exempt and has {held}")

    def _check_foreign(self, decision: Decision) -> None:
        """What somebody else set is not ours from the tick on that sees it."""
        for view in decision.vps:
            entry = self.world.host.guests[view.guest.uuid]
            if view.guest.unmanaged not in _MANAGED or entry.refuses or not entry.journal:
                continue
            for held in entry.journal.held:
                if held.knob in (Knob.PLACEMENT, Knob.CPU_CAP, Knob.CPU_WEIGHT):
                    now = GIVEN[held.knob](entry.guest)
                    known = now in (held.value, held.original)
                    expect(known, f"{held.knob.value} is {now}, and {held} stays")

    def _check_bounds(self, guest: Guest) -> None:
        expect(guest.placement <= guest.allowed_cpus, f"{guest.name} is beyond Nova's bound")
        own = min(one.cores for one in self.given[guest.uuid, Knob.CPU_CAP])
        floor = own if guest.cap_floor_ratio is None else own * guest.cap_floor_ratio
        expect(guest.quota.cores >= floor - 1e-5, f"{guest.name} is below its floor: {guest.quota}")

    def end(self, how: str) -> None:
        """All is well again, and the agent ends."""
        world = self.world
        self.calls_left, world.host.is_up = None, True
        for uuid, entry in world.host.guests.items():
            entry.refuses, entry.keeps_its_size = "", False
            world.host.change(uuid, unmanaged=None, is_running=True)
        if how == "restarted":
            self.start()
            self.set_mode(Mode.OBSERVE)
            self.tick()
            for _ in range(QUIET_S):
                if any(entry.journal for entry in world.host.guests.values()):
                    self.tick()
        elif how == "released":
            expect(not self._release().everything().failed, "something cannot be released")
        else:
            expect(world.agent.give_back(waits=True), "something is not given back")
        self.check()
        for entry in world.host.guests.values():
            expect(entry.journal is None, f"held for ever: {entry.journal}")

    def _release(self) -> Release:
        """As an operator does after a kill."""
        host, state = self.world.host, StateFolder(str(self.world.folder))
        journal = FakeJournal(host)
        others = (self.world.mover, self.world.balloon, self.world.emulator)
        actuators = by_knob(FakeActuator(host), *others)
        run = RunFolder(str(self.world.folder / "run"))
        executor = Executor(journal, actuators, epoch=0)
        return Release(run, FakeGuests(host), journal, executor, state.epochs())


def _nothing(life: AgentLife, value: int) -> None:
    """Most ticks."""


def _time(life: AgentLife, value: int) -> None:
    life.tick(SPANS_S[value % len(SPANS_S)])


def _minute(life: AgentLife, value: int) -> None:
    """No lease ends in it that is renewed."""
    for _ in range(3):
        life.tick(25.0)


def _long(life: AgentLife, value: int) -> None:
    for _ in range(12):
        life.tick()


def _quarrel(life: AgentLife, value: int) -> None:
    """One of them becomes the victim of another one."""
    if len(life.servers) > 1:
        victim, other = life.server(value), life.server(value + 1)
        life.world.rates[victim], life.world.rates[other] = CHASE, COMPUTE
        _long(life, value)
        life.world.rates[victim], life.world.rates[other] = CHASE_HURT, STREAM


def _mode(life: AgentLife, value: int) -> None:
    life.set_mode((*MODES, None)[value % (len(MODES) + 1)])


def _observe(life: AgentLife, value: int) -> None:
    """For longer than any lease."""
    life.set_mode(Mode.OBSERVE)
    _minute(life, value)


def _accept(life: AgentLife, value: int) -> None:
    last = life.world.control.last()
    for proposal in last.proposals if last else ():
        try:
            life.world.control.accept(proposal.id)
        except (NotAdvising, UnknownAction):
            return


def _undo(life: AgentLife, value: int) -> None:
    done = [one.action for one in life.world.heard.outcomes]
    if done:
        try:
            life.world.control.undo(done[value % len(done)].id)
        except (NotInForce, UnknownAction):
            return


def _of_server(change: Callable[[AgentLife, str, int], None]) -> Callable[[AgentLife, int], None]:
    def happen(life: AgentLife, value: int) -> None:
        if life.servers:
            change(life, life.server(value), value)

    return happen


def _leave(life: AgentLife, uuid: str, value: int) -> None:
    life.world.host.end(uuid)
    del life.world.rates[uuid]
    life.world.counters.remove(uuid)


def _reboot(life: AgentLife, uuid: str, value: int) -> None:
    life.world.host.reboot(uuid)
    generation = life.world.host.guests[uuid].guest.generation
    life.world.counters.start(uuid, 1, generation)
    life.note_given(uuid)


def _pin(life: AgentLife, uuid: str, value: int) -> None:
    life.change(uuid, Knob.PLACEMENT, placement=frozenset({value % 8}), vcpu_placement=())


def _limit(life: AgentLife, uuid: str, value: int) -> None:
    life.change(uuid, Knob.CPU_CAP, quota=Quota(60_000 + value))


def _weigh(life: AgentLife, uuid: str, value: int) -> None:
    life.change(uuid, Knob.CPU_WEIGHT, cpu_weight=CpuWeight(1000 + value))


def _refuse(life: AgentLife, uuid: str, value: int) -> None:
    entry = life.world.host.guests[uuid]
    entry.refuses = "" if entry.refuses else "a job is under way"


def _migrate(life: AgentLife, uuid: str, value: int) -> None:
    is_here = life.world.host.guests[uuid].guest.unmanaged is None
    life.world.host.change(uuid, unmanaged=Unmanaged.MIGRATING if is_here else None)


def _pause(life: AgentLife, uuid: str, value: int) -> None:
    life.world.host.change(uuid, is_running=not life.world.host.guests[uuid].guest.is_running)


def _wait(life: AgentLife, uuid: str, value: int) -> None:
    life.waiting ^= {uuid}


def _work(life: AgentLife, uuid: str, value: int) -> None:
    life.world.rates[uuid] = RATES[value % len(RATES)]


def _order(life: AgentLife, uuid: str, value: int) -> None:
    changes = ({"exempt": True}, {"exempt": False}, {"mode": MODES[value % 3]}, {"mode": None})
    change: dict[str, Any] = changes[value % len(changes)]
    try:
        life.world.control.servers.override(uuid, change)
    except CannotOverride:
        return
    life.own_modes[uuid] = change.get("mode", life.own_modes.get(uuid))


def _kill(life: AgentLife, value: int) -> None:
    life.calls_left = value % 8


def _restart(life: AgentLife, value: int) -> None:
    if value % 2:
        with contextlib.suppress(Killed):
            life.world.agent.give_back(waits=True)
    life.start()


def _libvirt(life: AgentLife, value: int) -> None:
    life.world.host.is_up = not life.world.host.is_up


EVENTS: Mapping[str, Callable[[AgentLife, int], None]] = {
    "nothing": _nothing,
    "time": _time,
    "long": _long,
    "minute": _minute,
    "quarrel": _quarrel,
    "mode": _mode,
    "observe": _observe,
    "accept": _accept,
    "undo": _undo,
    "arrive": AgentLife.arrive,
    "leave": _of_server(_leave),
    "reboot": _of_server(_reboot),
    "pin": _of_server(_pin),
    "limit": _of_server(_limit),
    "weigh": _of_server(_weigh),
    "refuse": _of_server(_refuse),
    "migrate": _of_server(_migrate),
    "pause": _of_server(_pause),
    "wait": _of_server(_wait),
    "work": _of_server(_work),
    "order": _of_server(_order),
    "kill": _kill,
    "restart": _restart,
    "libvirt": _libvirt,
}
OFTEN = ("quarrel",) * 4 + ("nothing", "work", "mode", "restart", "observe") * 2


class AgentLives:
    name, weight = "agent-lives", 1

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "lives"
        self._number = 0

    def make(self, dice: Dice) -> Any:
        names = (*EVENTS, *OFTEN)
        some = sorted(controllers.installed())
        return {
            "mode": dice.pick(("enforce",) * 6 + ("advise", "observe")),
            "controllers": [name for name in some if dice.is_so(0.6)],
            "numbers": {
                "moves_per_minute": dice.pick((6, 60)),
                "reverse_hold_s": dice.pick((5.0, 900.0)),
                "move_hold_s": dice.pick((1.0, 10.0)),
                "home_on_arrival": dice.pick(("never", "enforce", "always")),
            },
            "servers": [dice.randint(0, 59) for _ in range(dice.randint(2, 4))],
            "events": [[dice.pick(names), dice.randint(0, 59)] for _ in range(dice.randint(3, 16))],
            "end": dice.pick(ENDS),
        }

    def take(self, payload: Any) -> str:
        self._number += 1
        life = AgentLife(self._folder / str(self._number), payload)
        life.pass_by(payload["events"])
        life.end(payload["end"])
        return ACCEPTED if life.actions else REFUSED

    def settle(self) -> None:
        """Nothing is left."""
