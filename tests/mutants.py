# SPDX-License-Identifier: Apache-2.0
"""`make mutants`: how many small faults in the code its tests notice.

mutmut makes the faulty functions. The tests of a part run once without a fault, which shows what
each of them calls. Then a forked process for each fault has the faulty function in place of the
right one, and runs the tests that call it. A whole part takes hours: `--sample` chooses some.
Faults in texts for people alone count apart. One JSON line for each part, and the survivors.
"""

import __future__

import argparse
import ast
import functools
import importlib
import inspect
import json
import os
import random
import re
import resource
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from difflib import unified_diff
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, NamedTuple

import hypothesis
import pytest

ROOT = Path(__file__).parents[1]
OPTIONS = ("-q", "-x", "--assert=plain", "-p", "no:cacheprovider")
AT_ONCE = 2
"""Processes."""
LEAST_CPU_S, CPU_RATIO = 10.0, 5.0
"""How long the tests of a fault may compute, the ratio by what they took without it."""
LEAST_WALL_S, WALL_RATIO = 300.0, 20.0
"""How long they may wait: nobody knows how busy the machine is."""
NOT_PLANTED = 64
VERDICTS = {0: "survived", 1: "killed", 2: "killed", 3: "killed", NOT_PLANTED: "not planted"}
"""By exit codes of pytest, and one of ours: a function that reads variables of an outer one."""
_FLAGS = __future__.annotations.compiler_flag
_LITERAL = re.compile(r"[rbf]*('[^']*'|\"[^\"]*\")")


class Part(NamedTuple):
    files: tuple[str, ...]
    tests: tuple[str, ...]


def _core_parts() -> Iterator[tuple[str, Part]]:
    """Each folder of the core, with its own tests; what all controllers use, with those of all."""
    core, tests = ROOT / "nova_vp/core", ROOT / "tests/unit/core"
    for folder in sorted(file.parent for file in core.rglob("*/__init__.py")):
        own = [tests / folder.relative_to(core)]
        if folder.name == "controllers":
            continue
        if folder.name in ("model", "signals", "types"):
            own = [tests]
        if folder.name == "pipeline":
            own += sorted(tests.glob("test_*.py"))
        yield (
            f"core/{folder.name}",
            Part(
                (f"{folder.relative_to(ROOT)}/*.py",),
                tuple(str(one.relative_to(ROOT)) for one in own),
            ),
        )


PARTS = {
    **dict(_core_parts()),
    "wire": Part(
        ("nova_vp/wire/*.py", "nova_vp/*_message.py"),
        (
            "tests/unit/test_latency_reports.py",
            "tests/unit/test_overlay_message.py",
            "tests/unit/test_releases_apart.py",
            "tests/unit/test_wire.py",
            "tests/unit/publish",
        ),
    ),
    "escalation": Part(
        ("vp_scheduler/escalation/*.py",),
        (
            "tests/unit/escalation",
            "tests/contract/services/test_escalation_hosts.py",
            "tests/contract/services/test_escalation_steps.py",
        ),
    ),
    "journal": Part(("vp_agent/drivers/*journal*.py",), ("tests/unit/drivers",)),
}


class Mutant(NamedTuple):
    name: str
    module: str
    function: str
    """Or `Class.method`."""
    right: ast.FunctionDef
    wrong: ast.FunctionDef

    def plant(self) -> None:
        """In this process: the function object stays, whoever has imported it."""
        function = _function(self.module, self.function)
        scope = {**vars(sys.modules[self.module])}
        self.wrong.decorator_list.clear()
        made = ast.Module([self.wrong], [])
        exec(compile(made, self.name, "exec", _FLAGS, dont_inherit=True), scope)
        wrong = scope[self.wrong.name]
        function.__code__ = wrong.__code__
        function.__defaults__, function.__kwdefaults__ = wrong.__defaults__, wrong.__kwdefaults__

    def change(self) -> list[str]:
        """The lines that differ."""
        right, wrong = (
            ast.unparse(ast.Module(one.body, [])).splitlines() + [ast.unparse(one.args)]
            for one in (self.right, self.wrong)
        )
        diff = unified_diff(right, wrong, lineterm="", n=0)
        return [line for line in diff if line[:3] not in ("---", "+++") and line[:2] != "@@"]


class Reach:
    """A plugin of pytest and a trace function: which tests call which function, and how long each
    takes."""

    def __init__(self, functions: Iterable[Callable[..., Any]]) -> None:
        self.tests: dict[int, set[str]] = {id(one.__code__): set() for one in functions}
        self.took_s: Counter[str] = Counter()
        self._test = ""

    def __call__(self, frame: FrameType, event: str, arg: object) -> None:
        tests = self.tests.get(id(frame.f_code))
        if tests is not None and self._test:
            tests.add(self._test)

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._test = nodeid

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.took_s[report.nodeid] += report.duration


class Chosen:
    """A plugin of pytest: only these tests, in this order."""

    def __init__(self, tests: Sequence[str]) -> None:
        self._place = {test: place for place, test in enumerate(tests)}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items[:] = [one for one in items if one.nodeid in self._place]
        items.sort(key=lambda one: self._place[one.nodeid])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument(
        "part", nargs="*", choices=[*PARTS, "core", []], help="default: all; core: all of the core"
    )
    parser.add_argument("--only", default="", help="mutants with this in their names")
    parser.add_argument("--sample", type=int, help="so many of each part, by chance")
    parser.add_argument("--seed", type=int, default=1, help="of that chance")
    asked = parser.parse_args()
    os.chdir(ROOT)
    importlib.import_module("tests.conftest")
    hypothesis.settings.register_profile(
        "mutants", hypothesis.settings.get_profile("unhurried"), derandomize=True, database=None
    )
    hypothesis.settings.load_profile("mutants")
    for name, part in PARTS.items():
        if asked.part and not {name, name.partition("/")[0]} & {*asked.part}:
            continue
        mutants = [one for one in mutants_of(part) if asked.only in one.name]
        if asked.sample is not None:
            chance = random.Random(asked.seed)
            mutants = chance.sample(mutants, min(asked.sample, len(mutants)))
        if mutants:
            tell(name, asked.seed, judge(mutants, part.tests))
    return 0


def mutants_of(part: Part) -> list[Mutant]:
    make = importlib.import_module("mutmut.mutation.file_mutation").mutate_file_contents
    found = []
    for file in sorted({file for pattern in part.files for file in ROOT.glob(pattern)}):
        made = make(str(file), file.read_text())
        functions = {
            node.name: node
            for node in ast.walk(ast.parse(made.code))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        module = ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for name in made.mutant_names:
            mangled = name.partition("__mutmut_")[0]
            function = mangled.removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")
            right = functions[f"{mangled}__mutmut_orig"]
            found.append(Mutant(f"{module}.{name}", module, function, right, functions[name]))
    return sorted(found, key=lambda one: one.name)


def _function(module: str, path: str) -> Any:
    owner: ModuleType | type = importlib.import_module(module)
    *classes, name = path.split(".")
    owner = functools.reduce(getattr, classes, owner)
    found = inspect.getattr_static(owner, name)
    return getattr(found, "__func__", found)


def judge(mutants: Sequence[Mutant], tests: Sequence[str]) -> Iterator[tuple[Mutant, str]]:
    """Each with its verdict."""
    functions = {one.name: _function(one.module, one.function) for one in mutants}
    reach = Reach(functions.values())
    threading.settrace(reach)
    sys.settrace(reach)
    code = pytest.main([*OPTIONS, *tests], plugins=[reach])
    sys.settrace(None)
    threading.settrace(None)  # type: ignore[arg-type]
    if code:
        sys.exit("a test fails without any fault")
    running: dict[int, Mutant] = {}
    for mutant in mutants:
        called_by = reach.tests[id(functions[mutant.name].__code__)]
        if not called_by:
            yield mutant, "untested"
            continue
        while len(running) >= AT_ONCE:
            yield _ended(running)
        chosen = sorted(called_by, key=lambda test: (reach.took_s[test], test))
        running[_started(mutant, chosen, sum(reach.took_s[test] for test in chosen))] = mutant
    while running:
        yield _ended(running)


def _started(mutant: Mutant, tests: Sequence[str], took_s: float) -> int:
    """A process of its own, that ends with pytest's exit code."""
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    code = NOT_PLANTED
    with suppress(BaseException):
        mutant.plant()
        code = 1
        cpu_s = int(LEAST_CPU_S + CPU_RATIO * took_s)
        resource.setrlimit(resource.RLIMIT_CPU, (_cpu_s() + cpu_s, _cpu_s() + cpu_s + 1))
        signal.alarm(int(LEAST_WALL_S + WALL_RATIO * took_s))
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        files = sorted({test.partition("::")[0] for test in tests})
        code = int(pytest.main([*OPTIONS, "--tb=no", *files], plugins=[Chosen(tests)]))
    os._exit(code)


def _cpu_s() -> int:
    return int(sum(os.times()[:2])) + 1


def _ended(running: dict[int, Mutant]) -> tuple[Mutant, str]:
    pid, status = os.wait()
    code = os.waitstatus_to_exitcode(status)
    return running.pop(pid), "timeout" if code < 0 else VERDICTS[code]


def tell(part: str, seed: int, judged: Iterable[tuple[Mutant, str]]) -> None:
    counts: Counter[str] = Counter()
    for mutant, verdict in judged:
        if verdict not in ("killed", "timeout"):
            change = mutant.change()
            if is_of_text(change):
                verdict = "text"
            else:
                print("\n".join([f"\n\n{verdict}: {mutant.name}", *change]), flush=True)
        else:
            print(end=".", flush=True)
        counts[verdict] += 1
    counted = counts.total() - counts["text"]
    found = counts["killed"] + counts["timeout"]
    score = round(found / counted, 4) if counted else None
    print(json.dumps({"part": part, "seed": seed, "score": score, **counts}), flush=True)


def is_of_text(change: Collection[str]) -> bool:
    """Nothing but literals differ."""
    before, after = (
        [_LITERAL.sub('""', line[1:]) for line in change if line.startswith(sign)] for sign in "-+"
    )
    return before == after


if __name__ == "__main__":
    sys.exit(main())
