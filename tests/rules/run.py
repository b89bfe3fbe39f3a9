# SPDX-License-Identifier: Apache-2.0
"""Each rule disabled in turn, by two workers, each with a tree of its own."""

import queue
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.rules.declared import Rule
from tests.rules.tree import FAILED, PASSED, Ended, Tree

WORKERS = 2
RED = "red"


@dataclass(frozen=True, slots=True)
class Checked:
    rule: Rule
    result: str
    """`red`, or what is wrong."""
    seconds: float


Told = Callable[[Checked], None]


def check(root: Path, rules: Sequence[Rule], told: Told = lambda one: None) -> tuple[Checked, ...]:
    """In the order of the rules; `told` hears of each as soon as it is known."""
    with _trees(root) as trees, ThreadPoolExecutor(WORKERS) as pool:
        idle: queue.SimpleQueue[Tree] = queue.SimpleQueue()
        for tree in trees:
            idle.put(tree)
        wrong = _wrong_before(trees[0], {rule.test for rule in rules})

        def one(rule: Rule) -> Checked:
            tree, began_s = idle.get(), time.monotonic()
            try:
                result = wrong.get(rule.test) or _disabled(tree, rule)
            finally:
                idle.put(tree)
            checked = Checked(rule, result, time.monotonic() - began_s)
            told(checked)
            return checked

        return tuple(pool.map(one, rules))


@contextmanager
def _trees(root: Path) -> Iterator[Sequence[Tree]]:
    with tempfile.TemporaryDirectory(prefix="rules-") as folder:
        targets = [Path(folder).resolve() / str(number) for number in range(WORKERS)]
        with ThreadPoolExecutor(WORKERS) as pool:
            yield list(pool.map(lambda target: Tree.copy(root, target), targets))


def _wrong_before(tree: Tree, tests: Iterable[str]) -> dict[str, str]:
    """By test that says nothing about its rule: why. All pass at once where all is well."""
    tests = sorted(tests)
    if not tests or tree.pytest(tests).status == PASSED:
        return {}
    ended = {test: tree.pytest([test]) for test in tests}
    return {test: _why_before(one) for test, one in ended.items() if one.status != PASSED}


def _why_before(ended: Ended) -> str:
    if ended.status == FAILED:
        return "its test fails with the rule, too"
    return f"its test does not exist or cannot run: {_last_line(ended)}"


def _disabled(tree: Tree, rule: Rule) -> str:
    with tree.without(rule):
        ended = tree.pytest([rule.test])
    if ended.status == PASSED:
        return "its test stays green"
    if ended.status != FAILED:
        return f"its test cannot run without it: {_last_line(ended)}"
    if not ended.raised_in.startswith("tests/"):
        return f"without it {ended.raised_in or 'the code'} breaks: {_last_line(ended)}"
    return RED


def _last_line(ended: Ended) -> str:
    lines = [line for line in ended.output.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("E ", "ERROR", "/"))]
    return (errors or lines or ["no output"])[-1].strip()
