# SPDX-License-Identifier: Apache-2.0
"""A run: rounds of made-up input for everything that takes any, and what was found wrong.

The payload of a seed and a number is always the same, and every round begins with an empty world:
so a finding can be had again alone, or, where it takes those before it, with its round. What was
found is then made smaller as long as it is found.
"""

import contextlib
import itertools
import re
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import vp_api  # noqa: F401  (first: it chooses threads before oslo.messaging is imported)
from tests.bench.harness import progress
from tests.fuzz.agent_lives import AgentLives
from tests.fuzz.agents import AgentBus, AgentSocket
from tests.fuzz.calls import Calls
from tests.fuzz.database import Database
from tests.fuzz.dice import Dice
from tests.fuzz.digests import Digests
from tests.fuzz.escalations import Escalations
from tests.fuzz.files import Configuration, Recordings, StateFiles
from tests.fuzz.guests import DomainXml, KernelFiles, Metadata, Specs, VpmuFiles
from tests.fuzz.lives import Transition, transitions
from tests.fuzz.oracle import LogCheck, bounded, logs_checked
from tests.fuzz.overlays import OverlayBus
from tests.fuzz.placements import Placements
from tests.fuzz.readers import Readers
from tests.fuzz.reports import Reports
from tests.fuzz.shrink import smaller
from tests.fuzz.subject import Subject

TELL_EVERY_S = 10.0
ROUND = 2000
MOST_FINDINGS = 20
MOST_SUSPECTS = 40
_NUMBERS = re.compile(r"[0-9a-f-]*[0-9][0-9a-f-]*")


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong, told so that the same is known again."""

    subject: str
    what: str
    where: str
    traceback: str = field(compare=False)


def fault_of(subject: str, exc: BaseException) -> Fault:
    frames = traceback.extract_tb(exc.__traceback__)
    ours = [one for one in frames if "/tests/" not in one.filename and "/lib/" not in one.filename]
    last = (ours or frames)[-1]
    what = _NUMBERS.sub("N", f"{type(exc).__name__}: {exc}".partition("\n")[0])[:80]
    told = "".join(traceback.format_exception(exc))
    return Fault(subject, what, f"{last.filename}:{last.name}", told)


class World:
    """Of one round. What nobody sends anything to is not made."""

    def __init__(
        self, folder: Path, database: Database, readers: Readers, reached: Counter[Transition]
    ) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        self._database, self._readers = database, readers
        self._is_cleared = False
        self._made: dict[str, Subject] = {}
        self._makers: dict[type[Subject], Callable[[], Subject]] = {
            Reports: lambda: Reports(self._cleared(), readers),
            Digests: Digests,
            Escalations: lambda: Escalations(self._cleared(), reached),
            AgentBus: lambda: AgentBus(folder),
            OverlayBus: lambda: OverlayBus(folder),
            Calls: lambda: Calls(folder),
            AgentSocket: lambda: AgentSocket(folder),
            StateFiles: lambda: StateFiles(folder),
            Recordings: Recordings,
            Configuration: lambda: Configuration(folder),
            Metadata: Metadata,
            DomainXml: DomainXml,
            Specs: Specs,
            VpmuFiles: lambda: VpmuFiles(folder),
            KernelFiles: KernelFiles,
            Placements: Placements,
            AgentLives: lambda: AgentLives(folder),
        }
        self._lots = [one for one in self._makers for _ in range(one.weight)]

    def _cleared(self) -> Database:
        if not self._is_cleared:
            self._database.clear()
            self._is_cleared = True
        return self._database

    def kinds(self) -> list[type[Subject]]:
        return list(self._makers)

    def subject(self, kind: type[Subject]) -> Subject:
        if kind.name not in self._made:
            self._made[kind.name] = self._makers[kind]()
        return self._made[kind.name]

    def make(self, seed: str, number: int, only: str | None = None) -> "Payload | None":
        """None: it is not for the only one that counts."""
        dice = Dice(seed, number)
        kind = dice.pick(self._lots)
        if only not in (None, kind.name):
            return None
        return Payload(number, kind, self.subject(kind).make(dice))

    def made(self) -> list[Subject]:
        return list(self._made.values())

    def close(self) -> None:
        for one in self._made.values():
            if isinstance(one, AgentSocket):
                one.close()


@dataclass(frozen=True, slots=True)
class Payload:
    number: int
    kind: type[Subject]
    content: Any


@dataclass(slots=True)
class Finding:
    fault: Fault
    numbers: Sequence[int]
    """Of the payloads that it takes."""
    payload: Any
    """The last one, as small as it could be made."""
    times: int = 1


@dataclass(slots=True)
class Run:
    seed: str
    folder: Path
    log: LogCheck
    only: str | None = None
    """Name of the one subject that is fuzzed; None: all."""
    outcomes: Counter[tuple[str, str]] = field(default_factory=Counter)
    findings: dict[Fault, Finding] = field(default_factory=dict)
    reached: Counter[Transition] = field(default_factory=Counter)
    """Of escalations, from which state to which."""
    _database: Any = None
    _readers: Any = None

    def __post_init__(self) -> None:
        self._database = Database(self.folder)
        self._readers = Readers(self._database)

    def payloads(self) -> int:
        return sum(self.outcomes.values())

    def not_reached(self) -> list[str]:
        """Changes of an escalation's state that are possible, and have not come about."""
        missing = transitions() - self.reached.keys()
        return sorted(f"{before.value} -> {after.value}" for before, after in missing)

    @contextlib.contextmanager
    def world(self) -> Iterator[World]:
        world = World(self.folder / "world", self._database, self._readers, self.reached)
        try:
            yield world
        finally:
            world.close()

    def round(self, first: int, last: int) -> None:
        """Those numbers, `last` excluded; whoever finds something begins anew with what is left."""
        while first < last:
            first = self._part(first, last)

    def _part(self, first: int, last: int) -> int:
        fault = None
        with self.world() as world:
            number = first
            for number in range(first, last):
                payload = world.make(self.seed, number, self.only)
                if payload and (fault := self._take(world, payload)):
                    break
            fault = fault or self._settle(world)
        if fault:
            self._note(fault, first, number)
        return number + 1

    def _take(self, world: World, payload: Payload) -> Fault | None:
        name = payload.kind.name
        subject = world.subject(payload.kind)
        try:
            with bounded():
                outcome = subject.take(payload.content)
            self.log.check()
        except Exception as exc:
            self.outcomes[name, "wrong"] += 1
            return fault_of(name, exc)
        self.outcomes[name, outcome] += 1
        return None

    def _settle(self, world: World) -> Fault | None:
        for subject in world.made():
            try:
                subject.settle()
                self.log.check()
            except Exception as exc:
                return fault_of(subject.name, exc)
        return None

    def _note(self, fault: Fault, first: int, number: int) -> None:
        if fault in self.findings:
            self.findings[fault].times += 1
            return
        outcomes = self.outcomes.copy()
        found = self.findings[fault] = self._smallest(fault, first, number)
        self.outcomes = outcomes
        print(f"{fault.traceback}\n{found.payload!r:.2000}", file=sys.stderr, flush=True)

    def _smallest(self, fault: Fault, first: int, number: int) -> Finding:
        with self.world() as world:
            made = [world.make(self.seed, n, fault.subject) for n in range(first, number + 1)]
        suspects = [one for one in reversed(made) if one]
        for one in suspects[:MOST_SUSPECTS]:
            if self.fault([one]) == fault:
                content = smaller(one.content, partial(self._is_found, fault, one.kind))
                return Finding(fault, [one.number], content)
        return Finding(fault, range(first, number + 1), suspects[0].content)

    def _is_found(self, fault: Fault, kind: type[Subject], content: Any) -> bool:
        return self.fault([Payload(0, kind, content)]) == fault

    def fault(self, payloads: Iterable[Payload]) -> Fault | None:
        """What these find in a world of their own."""
        with self.world() as world:
            for payload in payloads:
                if fault := self._take(world, payload):
                    return fault
            return self._settle(world)


@contextlib.contextmanager
def a_run(seed: str, only: str | None = None) -> Iterator[Run]:
    # In memory where that can be: nothing here outlives a power cut.
    memory = Path("/dev/shm")
    place = memory if memory.exists() else None
    with (
        tempfile.TemporaryDirectory(prefix="nova-vp-fuzz-", dir=place) as folder,
        logs_checked() as log,
    ):
        yield Run(seed, Path(folder), log, only)


def fuzz(run: Run, count: int, seconds: float, first: int = 0) -> None:
    """Until so many payloads, so much time or Ctrl-C; not in the middle of a round."""
    begun_s = told_s = time.monotonic()
    for begin in itertools.count(first, ROUND):
        if begin >= first + count or time.monotonic() - begun_s > seconds:
            return
        try:
            run.round(begin, min(begin + ROUND, first + count))
        except KeyboardInterrupt:
            return
        if time.monotonic() - told_s >= TELL_EVERY_S:
            told_s = time.monotonic()
            progress(f"{run.payloads()} of {count} payloads, {len(run.findings)} findings")
        if len(run.findings) >= MOST_FINDINGS:
            return
