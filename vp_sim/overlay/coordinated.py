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
from vp_sim.overlay.uncoordinated import Completed, completed

LOOK_S = 5.0
"""How often a monitor of request classes looks. The source: every 30 s (T 4.5.2.1)."""
SETTLED_S = 60.0
APPLICATION = "application"
RUBIS_CLASSES: Mapping[str, Sequence[str]] = {"browse": ("web", "app"), "bid": ("app", "db")}
SWAPPED_CLASSES: Mapping[str, Sequence[str]] = {"browse": ("app", "db"), "bid": ("web", "app")}


@dataclass(frozen=True, slots=True)
class Served:
    """Of tiers, after they have settled."""

    per_s: float
    cores: float
    p50_ms: Mapping[str, float]
    p95_ms: Mapping[str, float]
    deviation_ms: Mapping[str, float]


def served(setup: Setup, from_s: float) -> Served:
    assert setup.tiers is not None
    late = [one for one in setup.tiers.answered if one.at_s >= from_s]
    kinds = {kind: [one for one in late if one.kind == kind] for kind in setup.tiers.demands_ms}
    return Served(
        len(late) / (setup.env.now - from_s),
        sum(vm.ran_s for vm in setup.cpus.vms.values()) / setup.env.now,
        {kind: _percentile_ms(some, 50) for kind, some in kinds.items()},
        {kind: _percentile_ms(some, 95) for kind, some in kinds.items()},
        {kind: 1000 * statistics.stdev(one.took_s for one in some) for kind, some in kinds.items()},
    )


def _percentile_ms(requests: Sequence[Request], percent: int) -> float:
    cuts = statistics.quantiles((one.took_s for one in requests), n=100)
    return 1000 * cuts[percent - 1]


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
    host = Coordinated(setup, [overlay_of(setup)], unseen=frozenset({"dom0"}))
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
    for one in setup.parallel.values():
        one.begin()
    setup.run_until(SETTLED_S)
    return {
        name: 1000 * (one.ended_at_s or SETTLED_S) - 2500 for name, one in setup.parallel.items()
    }


def _trigger(host: Coordinated, servers: Sequence[str]) -> None:
    host.call(APPLICATION, [Wanted(Verb.TRIGGER, one, lease_s=0.1) for one in servers])


def players(seed: int) -> dict[str, float]:
    """Frames per second of each, with a trigger by backlog (I 3.2)."""
    setup = setups.players(Players(), seed)
    host, monitor = Coordinated(setup, [overlay_of(setup)]), NetworkBacklog()
    player = setup.players["stream"]

    def arrived() -> None:
        monitor.see("stream", player.waiting_kib, player.lost)
        host.serve(APPLICATION, monitor)

    player.arrived = arrived
    return frames_per_s(setup)


def two_streams(seed: int) -> dict[str, float]:
    """Frames per second of each, tuned by bit and frame rate (I 3.2)."""
    setup, figures = setups.two_streams(Players(), seed), Players()
    host, monitor = Coordinated(setup, [overlay_of(setup)]), StreamClasses(StreamSettings())
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


def parsec(seed: int, *, lends: bool) -> Completed:
    """Islands under the cap of the host that lend, or do not (T 4.5.1)."""
    figures = Parsec()
    setup = setups.parsec(figures, seed, is_one_pool=False)
    knobs = frozenset({Knob.CPU_CAP, Knob.CPU_WEIGHT} | ({Knob.PLACEMENT} if lends else set()))
    Coordinated(setup, knobs=knobs, host_cap_cores=figures.cap_cores)
    return completed(setup)


def last_cpu(seed: int, arbitration: ArbitrationClass) -> dict[str, float]:
    """Requests per second of the web server: with its own CPUs, with one that it borrowed, and
    after both asked for the last one at once (T 4.5.3)."""
    setup = setups.last_cpu(LastCpu(), seed)
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
    found = {"own": _web_per_s(setup, 10.0)}
    for vm in (words, web):
        host.call(vm.name, [_borrowed(vm)])
        setup.run_until(setup.env.now + 1.0)
    found["one"] = _web_per_s(setup, 10.0)
    nacks = host.call_together([(vm.name, _borrowed(vm)) for vm in (words, web)])
    found["web_got_it"] = float(nacks[1] is None)
    found["words_got_it"] = float(nacks[0] is None)
    found["last"] = _web_per_s(setup, 10.0)
    return found


def _borrowed(vm: Vm) -> Wanted:
    """One CPU of Blackscholes' island: Dom0's is not touched."""
    return Wanted(Verb.BORROW, vm.name, cpus=1, island="lender")


def _web_per_s(setup: Setup, span_s: float) -> float:
    assert setup.web is not None
    before = len(setup.web.served_at_s)
    setup.run_until(setup.env.now + span_s)
    return (len(setup.web.served_at_s) - before) / span_s
