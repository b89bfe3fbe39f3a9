# SPDX-License-Identifier: Apache-2.0
"""The published experiments with their monitors, calls and the agent's core.

Each returns what it came to; `published.py` says beside which figure that is shown.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nova_vp.core.types.knob import Knob
from nova_vp.core.types.overlay import ArbitrationClass, Verb
from nova_vp.monitors.backlog import NetworkBacklog
from nova_vp.monitors.base import Wanted
from nova_vp.monitors.request_classes import RequestClasses, RequestSettings
from nova_vp.monitors.stream_classes import StreamClasses, StreamSettings
from vp_sim.overlay import setups
from vp_sim.overlay.agent_host import Coordinated, overlay_of
from vp_sim.overlay.applications import Process, Request
from vp_sim.overlay.figures import Barrier, LastCpu, Parsec, Players, Rubis, RubisOnIxp
from vp_sim.overlay.scheduler import Vm
from vp_sim.overlay.setups import Setup
from vp_sim.overlay.uncoordinated import Completed, barrier_ms, completed

LOOK_S = 5.0
"""How often a monitor of request classes looks. The source: every 30 s (T 4.5.2.1)."""
SETTLED_S = 60.0
APPLICATION = "application"
DOM0 = frozenset({"dom0"})
PARSEC = Parsec()
RUBIS_CLASSES: Mapping[str, Sequence[str]] = {"browse": ("web", "app"), "bid": ("app", "db")}
SWAPPED_CLASSES: Mapping[str, Sequence[str]] = {"browse": ("app", "db"), "bid": ("web", "app")}


@dataclass(frozen=True, slots=True)
class Answered:
    """Milliseconds that answers of one class took."""

    mean_ms: float
    least_ms: float
    most_ms: float
    p95_ms: float
    deviation_ms: float


@dataclass(frozen=True, slots=True)
class Served:
    """Of tiers, after they have settled."""

    per_s: float
    cores: float
    """In use, the host's too."""
    guest_cores: float
    step_s: float
    """Mean of an answer and the pause that follows it: a step of a session."""
    of: Mapping[str, Answered]
    """By class of requests."""


def served(setup: Setup, from_s: float) -> Served:
    assert setup.tiers is not None
    late = [one for one in setup.tiers.answered if one.at_s >= from_s]
    kinds = setup.tiers.demands_ms
    guest_s = sum(vm.ran_s for vm in setup.overlay)
    return Served(
        per_s=len(late) / (setup.env.now - from_s),
        cores=sum(vm.ran_s for vm in setup.cpus.vms.values()) / setup.env.now,
        guest_cores=guest_s / setup.env.now,
        step_s=setup.tiers.think_s + statistics.mean(one.took_s for one in late),
        of={kind: _answered([one for one in late if one.kind == kind]) for kind in kinds},
    )


def _answered(requests: Sequence[Request]) -> Answered:
    took_ms = [1000 * one.took_s for one in requests]
    return Answered(
        mean_ms=statistics.mean(took_ms),
        least_ms=min(took_ms),
        most_ms=max(took_ms),
        p95_ms=statistics.quantiles(took_ms, n=100)[94],
        deviation_ms=statistics.stdev(took_ms),
    )


def rubis(
    seed: int,
    borrows: int,
    classes: Mapping[str, Sequence[str]] = RUBIS_CLASSES,
    phases: int = 4,
    sessions: int | None = None,
) -> Served:
    """The overlay caps itself as in the source, and its monitor relaxes what is needed."""
    figures = Rubis()
    setup = setups.rubis(figures, seed, sessions or figures.sessions, is_capped=False)
    host = Coordinated(setup, [overlay_of(setup)])
    steps = round((1 - figures.capped_cores / figures.vcpus) * 10)
    _watch_requests(setup, host, classes, RequestSettings(steps_down=steps, borrows=borrows))
    setup.run_until(SETTLED_S + phases * figures.phase_s)
    return served(setup, SETTLED_S)


def rubis_on_ixp(seed: int, classes: Mapping[str, Sequence[str]] = RUBIS_CLASSES) -> Served:
    """Weights alone, by requests that are told apart outside the guests (I 3.1)."""
    setup = setups.rubis_on_ixp(RubisOnIxp(), seed)
    host = Coordinated(setup, [overlay_of(setup)], unseen=DOM0)
    settings = RequestSettings(steps_down=3, steps_up=4, memory_s=3.0)
    _watch_requests(setup, host, classes, settings, look_s=1.0)
    setup.run_until(3 * SETTLED_S)
    return served(setup, SETTLED_S)


def _watch_requests(
    setup: Setup,
    host: Coordinated,
    classes: Mapping[str, Sequence[str]],
    settings: RequestSettings,
    look_s: float = LOOK_S,
) -> None:
    monitor, counts = RequestClasses(classes, settings), dict.fromkeys(classes, 0)

    def seen(kind: str) -> None:
        counts[kind] += 1

    def look() -> Process:
        while True:
            yield setup.env.timeout(look_s)
            monitor.see(counts, setup.env.now)
            counts.update(dict.fromkeys(classes, 0))
            host.serve(APPLICATION, monitor)

    assert setup.tiers is not None
    setup.tiers.seen = seen
    setup.env.process(look())


def barrier(seed: int) -> dict[str, float]:
    """Milliseconds of each. All ranks are triggered at each barrier (T 4.5.2.2)."""
    setup = setups.barrier(Barrier(), seed)
    host = Coordinated(setup, [overlay_of(setup)])
    # The agent has seen everybody for a second before they start.
    setup.run_until(2.5)
    setup.parallel["mpi"].arriving = lambda: _trigger(host, ("",))
    return barrier_ms(setup)


def _trigger(host: Coordinated, servers: Sequence[str]) -> None:
    host.call(APPLICATION, [Wanted(Verb.TRIGGER, one, lease_s=0.1) for one in servers])


def players(seed: int) -> dict[str, float]:
    """Frames per second of each, with a trigger by backlog (I 3.2)."""
    setup = setups.players(Players(), seed)
    host = Coordinated(setup, [overlay_of(setup)], unseen=DOM0)
    monitor = NetworkBacklog()
    player = setup.players["stream"]

    def arrived() -> None:
        monitor.see("stream", player.waiting_kib, player.lost)
        host.serve(APPLICATION, monitor)

    player.arrived = arrived
    return frames_per_s(setup)


def two_streams(seed: int) -> dict[str, float]:
    """Frames per second of each, tuned by bit and frame rate. In the source the weights of both
    were increased, "due to their high bit-rate detection" (I 3.2)."""
    setup, figures = setups.two_streams(Players(), seed), Players()
    host = Coordinated(setup, [overlay_of(setup)], unseen=DOM0)
    settings = StreamSettings(fast_kbit_s=figures.slow_kbit_s, fast_fps=figures.slow_fps)
    monitor = StreamClasses(settings)
    monitor.see("slow", figures.slow_kbit_s, figures.slow_fps)
    monitor.see("fast", figures.fast_kbit_s, figures.fast_fps)

    def look() -> Process:
        while True:
            yield setup.env.timeout(LOOK_S)
            host.serve(APPLICATION, monitor)

    setup.env.process(look())
    return frames_per_s(setup)


def frames_per_s(setup: Setup) -> dict[str, float]:
    setup.run_until(SETTLED_S)
    before = {name: one.decoded for name, one in setup.players.items()}
    setup.run_until(4 * SETTLED_S)
    return {
        name: (one.decoded - before[name]) / (3 * SETTLED_S) for name, one in setup.players.items()
    }


def parsec(seed: int, *, lends: bool, figures: Parsec = PARSEC) -> Completed:
    """Islands under the cap of the host that lend, or do not (T 4.5.1)."""
    setup = setups.parsec(figures, seed, is_one_pool=False)
    knobs = frozenset({Knob.CPU_CAP, Knob.CPU_WEIGHT} | ({Knob.PLACEMENT} if lends else set()))
    Coordinated(setup, knobs=knobs, host_cap_cores=figures.cap_cores)
    return completed(setup)


def last_cpu(
    seed: int, arbitration: ArbitrationClass, requests_per_s: float | None = None
) -> dict[str, float]:
    """Requests per second of the web server, and CPU of the word count: with their own CPUs, with
    one that each borrowed, and after both asked for the last one at once (T 4.5.3)."""
    setup = setups.last_cpu(LastCpu(), seed, requests_per_s)
    web, words = setup.cpus.vms["web"], setup.cpus.vms["words"]
    host = Coordinated(
        setup,
        [
            overlay_of(setup, [vm], vm.name, priority=priority, arbitration=arbitration)
            for vm, priority in ((web, 2.0), (words, 1.0))
        ],
    )
    for one in setup.parallel.values():
        one.begin()
    found = _both(setup, "own")
    for vm in (words, web):
        host.call(vm.name, [_borrowed(vm)])
        setup.run_until(setup.env.now + 1.0)
    found |= _both(setup, "one")
    nacks = host.call_together([(vm.name, _borrowed(vm)) for vm in (words, web)])
    found["web_got_it"] = float(nacks[1] is None)
    found["words_got_it"] = float(nacks[0] is None)
    return found | _both(setup, "last")


def _borrowed(vm: Vm) -> Wanted:
    """One CPU of Blackscholes' island: Dom0's is not touched."""
    return Wanted(Verb.BORROW, vm.name, cpus=1, island="lender")


def _both(setup: Setup, when: str) -> dict[str, float]:
    assert setup.web is not None
    words, before, span_s = setup.cpus.vms["words"], len(setup.web.served_at_s), 10.0
    words.count(setup.env.now)
    ran_s = words.ran_s
    setup.run_until(setup.env.now + span_s)
    return {
        f"web_{when}": (len(setup.web.served_at_s) - before) / span_s,
        f"words_{when}": (words.ran_s - ran_s) / span_s,
    }
