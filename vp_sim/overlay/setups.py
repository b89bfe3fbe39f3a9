# SPDX-License-Identifier: Apache-2.0
"""The experiments as they begin: CPUs, servers with their places and limits, and what they run.

Nothing coordinates them here.
"""

from dataclasses import dataclass, field
from random import Random

import simpy

from vp_sim.overlay.applications import Parallel, Player, Tiers, WebServer
from vp_sim.overlay.figures import Barrier, LastCpu, Parsec, Players, Rubis, RubisOnIxp
from vp_sim.overlay.scheduler import Cpus, Vm

KIB_PER_KBIT = 1000 / 8 / 1024
NEVER = 10**9
POLL_S = 0.005


@dataclass
class Setup:
    cpus: Cpus
    dice: Random
    islands: dict[str, frozenset[int]]
    overlay: tuple[Vm, ...] = ()
    """Servers of the application that is looked at."""
    tiers: Tiers | None = None
    parallel: dict[str, Parallel] = field(default_factory=dict)
    players: dict[str, Player] = field(default_factory=dict)
    web: WebServer | None = None

    @property
    def env(self) -> simpy.Environment:
        return self.cpus.env

    def vm(self, name: str, vcpus: int, islands: tuple[str, ...], quota_cores: float = 1.0) -> Vm:
        cpus = frozenset().union(*(self.islands[one] for one in islands))
        vm = self.cpus.add(Vm(name, vcpus, cpus))
        if quota_cores < 1.0:
            self.cpus.change(vm, quota_cores=quota_cores)
        return vm

    def run_until(self, now_s: float) -> None:
        self.env.run(now_s)
        for vm in self.cpus.vms.values():
            vm.count(now_s)


def begun(seed: int | str, sizes: dict[str, int]) -> Setup:
    """With islands of so many CPUs."""
    islands, first = {}, 0
    for name, size in sizes.items():
        islands[name] = frozenset(range(first, first + size))
        first += size
    return Setup(Cpus(simpy.Environment(), range(first)), Random(seed), islands)


def rubis(figures: Rubis, seed: int, sessions: int, *, is_capped: bool) -> Setup:
    setup = begun(seed, {"host": 2, "web": 2, "app": 2, "db": 2})
    host = setup.vm("dom0", 2, ("host",))
    quota_cores = figures.capped_cores / figures.vcpus if is_capped else 1.0
    setup.overlay = tuple(
        setup.vm(name, figures.vcpus, (name,), quota_cores) for name in ("web", "app", "db")
    )
    setup.tiers = _tiers(setup, host, figures, sessions)
    return setup


def rubis_on_ixp(figures: RubisOnIxp, seed: int) -> Setup:
    setup = _x86_ixp(seed)
    host = setup.cpus.vms["dom0"]
    setup.overlay = tuple(setup.vm(name, 1, ("all",)) for name in ("web", "app", "db"))
    setup.tiers = _tiers(setup, host, figures, figures.sessions)
    return setup


def _x86_ixp(seed: int) -> Setup:
    """Dom0 polls the network processor for packets (I 2.1), beside guests on both CPUs (I 3)."""
    setup = begun(seed, {"all": 2})
    host = setup.vm("dom0", 2, ("all",))
    setup.parallel["polls"] = Parallel(setup.cpus, setup.dice, (host,), POLL_S, 0.0, NEVER)
    setup.parallel["polls"].begin()
    return setup


def _tiers(setup: Setup, host: Vm, figures: Rubis | RubisOnIxp, sessions: int) -> Tiers:
    tiers = Tiers(
        setup.cpus,
        setup.dice,
        setup.overlay,
        host,
        figures.host_ms,
        {"browse": figures.browse_ms, "bid": figures.bid_ms},
        figures.think_s,
        figures.phase_s,
        figures.frequent_ratio,
    )
    tiers.begin(sessions)
    return tiers


def barrier(figures: Barrier, seed: int) -> Setup:
    setup = begun(seed, {"first": figures.cpus, "second": figures.cpus})
    setup.overlay = tuple(
        setup.vm(f"mpi-{island}", figures.vcpus, (island,)) for island in setup.islands
    )
    ranks = Parallel(
        setup.cpus,
        setup.dice,
        setup.overlay,
        figures.step_ms / 1000,
        figures.noise_ratio,
        figures.steps,
        spins=True,
    )
    setup.parallel["mpi"] = ranks
    for island in setup.islands:
        vm = setup.vm(f"bs-{island}", figures.vcpus, (island,))
        thread_s = figures.blackscholes_ms / 1000
        setup.parallel[vm.name] = Parallel(setup.cpus, setup.dice, (vm,), thread_s, 0.0, 1)
    return setup


def players(figures: Players, seed: int) -> Setup:
    """The second one plays from its disk (I 3.2, table 3)."""
    setup = _x86_ixp(seed)
    first, second = setup.vm("stream", 1, ("all",)), setup.vm("disk", 1, ("all",))
    setup.overlay = (first,)
    setup.players = {
        "stream": _streamed(
            setup, figures, first, figures.frame_ms, figures.fast_fps, figures.fast_kbit_s
        ),
        "disk": Player(setup.cpus, setup.dice, second, figures.disk_frame_ms),
    }
    return _playing(setup, figures)


def two_streams(figures: Players, seed: int) -> Setup:
    """Both play streams (I 3.2, figure 6)."""
    setup = _x86_ixp(seed)
    slow, fast = setup.vm("slow", 1, ("all",)), setup.vm("fast", 1, ("all",))
    setup.overlay = (slow, fast)
    setup.players = {
        "slow": _streamed(
            setup, figures, slow, figures.slow_frame_ms, figures.slow_fps, figures.slow_kbit_s
        ),
        "fast": _streamed(
            setup, figures, fast, figures.fast_frame_ms, figures.fast_fps, figures.fast_kbit_s
        ),
    }
    return _playing(setup, figures)


def _streamed(
    setup: Setup, figures: Players, vm: Vm, frame_ms: float, fps: float, kbit_s: float
) -> Player:
    frame_kib = kbit_s * KIB_PER_KBIT / fps
    return Player(setup.cpus, setup.dice, vm, frame_ms, fps * figures.sent_ratio, frame_kib)


def _playing(setup: Setup, figures: Players) -> Setup:
    for player in setup.players.values():
        player.buffer_kib = figures.buffer_kib
        player.begin()
    return setup


def parsec(figures: Parsec, seed: int, *, is_one_pool: bool) -> Setup:
    size = figures.island_cpus
    setup = begun(seed, {"host": size, "first": size, "second": size, "third": size})
    setup.vm("dom0", 2, ("host",))
    low = setup.islands["host"] | setup.islands["first"]
    high = setup.islands["second"] | setup.islands["third"]
    nodes = {"first": low, "second": high, "third": high}
    for number, island in enumerate(("first", "second", "third")):
        places = tuple(setup.islands) if is_one_pool else (island,)
        vm = setup.vm(island, figures.vcpus, places)
        vm.near = nodes[island]
        vm.remote_slowdown_ratio = figures.remote_slowdown_ratio
        setup.parallel[island] = Parallel(
            setup.cpus,
            setup.dice,
            (vm,),
            figures.thread_s,
            figures.noise_ratio,
            figures.phases,
            figures.idle_s,
            begin_s=figures.apart_s * number,
        )
    return setup


def last_cpu(figures: LastCpu, seed: int, requests_per_s: float | None = None) -> Setup:
    setup = begun(seed, {"host": 4, "lender": 4, "words": 2, "web": 2})
    setup.vm("dom0", 4, ("host",))
    lender = setup.vm("bs", figures.blackscholes_threads, ("lender",), figures.lender_quota)
    words, web = setup.vm("words", 4, ("words",)), setup.vm("web", 4, ("web",))
    setup.overlay = (web,)
    for vm in (lender, words):
        endless = Parallel(setup.cpus, setup.dice, (vm,), 1.0, 0.0, NEVER)
        setup.parallel[vm.name] = endless
    setup.web = WebServer(
        setup.cpus,
        setup.dice,
        web,
        figures.request_ms,
        figures.refused_ms,
        figures.requests_per_s if requests_per_s is None else requests_per_s,
        figures.timeout_s,
        figures.backlog,
    )
    setup.web.begin()
    return setup
