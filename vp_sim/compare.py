# SPDX-License-Identifier: Apache-2.0
"""Many runs of several policies on one mix, on all CPUs of this machine.

Every policy meets the same start orders. `baseline` always runs: it sets the scale. With draws,
the same is done once more for each of them, judged by its own baseline.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from nova_vp.core.types.topology import Topology
from vp_sim.measure import OfPolicy, best_of, judge
from vp_sim.mixes import Mix
from vp_sim.perturb import Perturbation
from vp_sim.policies import BASELINE, find
from vp_sim.run import Run, World, simulate, world_of

ENDING = (signal.SIGINT, signal.SIGTERM)
BATCH = 5
"""Runs handed to a worker at a time: they share what was solved."""
BATCHES_PER_CPU = 4
"""Handed over at a time: no worker waits for the next one."""

Results = Mapping[str, OfPolicy]
Progress = Callable[[int], None]
"""Told how many more runs are done."""


@dataclass(frozen=True, slots=True)
class Comparison:
    nominal: Results
    draws: tuple[Results, ...]
    best_s: Mapping[str, float]
    """By application: its best baseline run of the nominal ones."""
    perturbation: Perturbation | None = None
    """Of the nominal ones and of every draw."""


class _Batch(NamedTuple):
    draw: int | None
    policy: str
    seeds: tuple[int, ...]


_mix: Mix
_perturb_seed: int | None
"""Of this worker process, set once when it starts."""


def compare(
    mix: Mix,
    policies: Sequence[str],
    runs: int,
    draws: int = 0,
    progress: Progress = lambda _: None,
    perturb_seed: int | None = None,
) -> Comparison:
    """Raises UnknownPolicy, and BrokenProcessPool if a worker was killed."""
    names = tuple(dict.fromkeys((BASELINE, *policies)))
    find(names)
    topology = mix.shape.topology()
    done: dict[_Batch, list[Run]] = {}
    # Not forked: who calls this may have threads.
    fresh = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), fresh, _begin, (mix, perturb_seed)) as pool:
        try:
            for batch, ended in _each_done(pool, _batches(names, runs, draws)):
                done[batch] = ended
                progress(len(ended))
        except BaseException:
            _abandon()
            raise
    return Comparison(
        nominal=_judged(done, names, None, topology),
        draws=tuple(_judged(done, names, draw, topology) for draw in range(draws)),
        best_s=best_of(_runs_of(done, BASELINE, None)),
        perturbation=world_of(mix, perturb_seed=perturb_seed).perturbation,
    )


def _each_done(
    pool: ProcessPoolExecutor, batches: Iterator[_Batch]
) -> Iterator[tuple[_Batch, list[Run]]]:
    """As they end. Few are handed over at a time, so that an interrupt is answered at once."""
    under_way: dict[Future[list[Run]], _Batch] = {}
    most = BATCHES_PER_CPU * (os.cpu_count() or 1)
    while True:
        with _uninterrupted():
            for batch in islice(batches, most - len(under_way)):
                under_way[pool.submit(_run, batch)] = batch
        if not under_way:
            return
        for future in wait(under_way, return_when=FIRST_COMPLETED).done:
            yield under_way.pop(future), future.result()


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Workers that start meanwhile never hear Ctrl-C, which goes to all: who was asked tells, once
    they stand. SIGTERM ends them, and who was asked waits with it as long."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard: list[int] = []
    handlers = {
        number: signal.signal(number, lambda number, _: heard.append(number)) for number in ENDING
    }
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for number, handler in handlers.items():
            signal.signal(number, handler)
    if heard:
        raise KeyboardInterrupt


def _abandon() -> None:
    """Nobody waits for what is under way. The pool sees it, and gives up what still waits."""
    for worker in multiprocessing.active_children():
        worker.terminate()


def _batches(names: Sequence[str], runs: int, draws: int) -> Iterator[_Batch]:
    for draw in (None, *range(draws)):
        for name in names:
            for first in range(0, runs, BATCH):
                yield _Batch(draw, name, tuple(range(first, min(first + BATCH, runs))))


def _begin(mix: Mix, perturb_seed: int | None) -> None:
    global _mix, _perturb_seed
    _mix, _perturb_seed = mix, perturb_seed
    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    """However it died: nobody would ever end this worker."""
    parent = multiprocessing.parent_process()
    if parent:
        parent.join()
        os._exit(1)


@lru_cache(maxsize=2)
def _world(draw: int | None) -> World:
    return world_of(_mix, draw, _perturb_seed)


def _run(batch: _Batch) -> list[Run]:
    create = find((batch.policy,))[batch.policy]
    world = _world(batch.draw)
    return [simulate(world, create, seed) for seed in batch.seeds]


def _judged(
    done: Mapping[_Batch, list[Run]], names: Sequence[str], draw: int | None, topology: Topology
) -> Results:
    best_s = best_of(_runs_of(done, BASELINE, draw))
    return {name: judge(_runs_of(done, name, draw), best_s, topology) for name in names}


def _runs_of(done: Mapping[_Batch, list[Run]], name: str, draw: int | None) -> list[Run]:
    batches = sorted(b for b in done if b.draw == draw and b.policy == name)
    return [run for batch in batches for run in done[batch]]
