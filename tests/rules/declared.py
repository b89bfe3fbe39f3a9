# SPDX-License-Identifier: Apache-2.0
"""The rules as the controllers' tests declare them; nothing is run here."""

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

CONTROLLERS = Path("nova_vp/core/controllers")
TESTS = Path("tests/unit/core/controllers")
FIELDS = frozenset({"name", "source", "file", "text", "disabled", "test"})


class Undeclared(Exception):
    """What is wrong with a declaration; the message says where."""


@dataclass(frozen=True, slots=True)
class Rule:
    controller: str
    name: str
    """A plain sentence."""
    source: str
    """Title, year and section, or `ours`."""
    file: str
    text: str
    """What makes the rule; it stands once in the file."""
    disabled: str
    """What stands there instead where the rule is disabled."""
    test: str
    """The node id of the test that must fail then."""
    line: int

    def without(self, code: str) -> str:
        return code.replace(self.text, self.disabled)


def all_rules(root: Path) -> tuple[Rule, ...]:
    """Of every controller. Raises Undeclared with all that is wrong, one fault a line."""
    faults: list[str] = []
    rules: list[Rule] = []
    for controller in controllers(root):
        path = root / TESTS / controller / "rules.toml"
        rows = tomllib.loads(path.read_text()).get("rule", []) if path.exists() else []
        if not rows:
            faults.append(
                f"{controller}: it has no rules; declare them in {path.relative_to(root)}"
            )
        for row in rows:
            try:
                rules.append(_rule(root, controller, row))
            except Undeclared as fault:
                faults.append(str(fault))
    faults += (f"{one.controller}: two rules are {one.name!r}" for one in _repeated(rules))
    if faults:
        raise Undeclared("\n".join(faults))
    return tuple(rules)


def controllers(root: Path) -> tuple[str, ...]:
    folders = (root / CONTROLLERS).glob("*/controller.py")
    return tuple(sorted(path.parent.name for path in folders))


def _rule(root: Path, controller: str, row: dict[str, str]) -> Rule:
    name = row.get("name", "a rule without a name")
    if row.keys() != FIELDS:
        raise Undeclared(f"{name}: it has {sorted(row)} and needs {sorted(FIELDS)}")
    path = root / row["file"]
    code = path.read_text() if path.is_file() else ""
    times = code.count(row["text"])
    if times != 1:
        raise Undeclared(f"{name}: its text is {times} times in {row['file']}: {row['text']!r}")
    line = code[: code.index(row["text"])].count("\n") + 1
    node = f"{TESTS / controller}/{row['test']}"
    return Rule(controller=controller, line=line, **{**row, "test": node})


def _repeated(rules: Iterable[Rule]) -> Iterator[Rule]:
    seen: set[tuple[str, str]] = set()
    for rule in rules:
        if (rule.controller, rule.name) in seen:
            yield rule
        seen.add((rule.controller, rule.name))
