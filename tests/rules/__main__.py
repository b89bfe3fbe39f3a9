# SPDX-License-Identifier: Apache-2.0
"""`python -m tests.rules` (`make rules`): every rule of the controllers, with its source and its
test, and whether that test fails once the rule is disabled. Ends with 1 if one does not.
"""

import argparse
import json
import sys
import textwrap
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.rules.declared import Rule, Undeclared, all_rules
from tests.rules.run import RED, Checked, check

ROOT = Path(__file__).resolve().parents[2]
WIDTH = 100
INDENT = " " * 5


def main(arguments: Sequence[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rules", description=__doc__)
    parser.add_argument(
        "--only", metavar="NAME", help="of one controller, or with this in the name"
    )
    parser.add_argument("--json", action="store_true", help="one line for programs")
    given = parser.parse_args(arguments)
    try:
        rules = named(all_rules(root), given.only)
    except Undeclared as faults:
        print(faults, file=sys.stderr)
        return 1
    if not rules:
        print(f"no rule is named {given.only!r}", file=sys.stderr)
        return 1
    began_s, progress = time.monotonic(), Progress(len(rules))
    found = check(root, rules, progress.tell)
    seconds = time.monotonic() - began_s
    print(json.dumps(document(found, seconds))) if given.json else show(found, seconds)
    return 0 if all(one.result == RED for one in found) else 1


def named(rules: Sequence[Rule], name: str | None) -> Sequence[Rule]:
    """All, those of one controller, or those with this in their name."""
    if name is None:
        return rules
    of_controller = [rule for rule in rules if rule.controller == name]
    return of_controller or [rule for rule in rules if name.lower() in rule.name.lower()]


class Progress:
    def __init__(self, rules: int) -> None:
        self.rules = rules
        self.done = 0

    def tell(self, one: Checked) -> None:
        self.done += 1
        line = f"{self.done}/{self.rules} {one.result}: {one.rule.name} ({one.seconds:.1f} s)"
        print(line, file=sys.stderr, flush=True)


def document(found: Sequence[Checked], seconds: float) -> dict[str, Any]:
    return {
        "rules": [
            {
                "controller": one.rule.controller,
                "rule": one.rule.name,
                "source": one.rule.source,
                "file": one.rule.file,
                "line": one.rule.line,
                "test": one.rule.test,
                "result": one.result,
            }
            for one in found
        ],
        "seconds": round(seconds, 1),
        "good": all(one.result == RED for one in found),
    }


def show(found: Sequence[Checked], seconds: float) -> None:
    for controller in dict.fromkeys(one.rule.controller for one in found):
        print(f"{controller}\n{'-' * len(controller)}")
        for one in found:
            if one.rule.controller == controller:
                print("\n".join(lines(one)))
        print()
    red = sum(one.result == RED for one in found)
    print(f"{len(found)} rules, {red} red, {len(found) - red} not, in {seconds:.0f} s")


def lines(one: Checked) -> Iterator[str]:
    """The rule, its source and what became of it; below, the lines that make it, and its test."""
    rule = one.rule
    width = WIDTH - len(rule.source) - len(RED) - 4
    first, *more = textwrap.wrap(rule.name, width)
    result = RED if one.result == RED else "NOT"
    yield f"{result}  {first:{width}}  {rule.source}"
    file, test = rule.file.removeprefix("nova_vp/core/"), Path(rule.test).name
    below = [*more, f"{file}:{rule.line}", test, *([] if one.result == RED else [one.result])]
    for line in below:
        yield from textwrap.wrap(line, WIDTH, initial_indent=INDENT, subsequent_indent=INDENT)


if __name__ == "__main__":
    sys.exit(main())
