# SPDX-License-Identifier: Apache-2.0
"""A file as plain values, whatever is in it: YAML without its dangerous parts.

What it may hold is judged in `mixfile` and `placementfile`. Here a few kilobytes must not become
gigabytes (aliases), nor a number something that nobody can compare (NaN).
"""

import math
from pathlib import Path
from typing import Any

import yaml

LARGEST_BYTES = 1 << 20
_LONGEST_TOLD = 20


class Unreadable(Exception):
    """The message says where in the text and why, on one line."""


class _Loader(yaml.SafeLoader):  # type: ignore[misc]
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            line = self.peek_event().start_mark.line + 1
            raise Unreadable(f"line {line}: aliases are not allowed; write the value itself")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        """Of two values under one name, nobody knows which is meant."""
        pairs = node.value if isinstance(node, yaml.MappingNode) else ()
        names = [key for key, _ in pairs if isinstance(key, yaml.ScalarNode)]
        seen = set()
        for name in names:
            if name.value in seen:
                raise Unreadable(
                    f"line {name.start_mark.line + 1}: {name.value} is given twice; remove one"
                )
            seen.add(name.value)
        return super().construct_mapping(node, deep)


def _finite(loader: _Loader, node: yaml.ScalarNode) -> float:
    number = float(loader.construct_yaml_float(node))
    if not math.isfinite(number):
        raise Unreadable(f"line {node.start_mark.line + 1}: {node.value} is not a finite number")
    return number


def _whole(loader: _Loader, node: yaml.ScalarNode) -> int:
    try:
        return int(loader.construct_yaml_int(node))
    except ValueError:
        line, text = node.start_mark.line + 1, node.value
        if len(text) > _LONGEST_TOLD:
            cut = text[:_LONGEST_TOLD]
            why = f"{cut}… is not a whole number of a usual size"
        else:
            why = f"{text} is not a whole number"
        raise Unreadable(f"line {line}: {why}") from None


_Loader.add_constructor("tag:yaml.org,2002:float", _finite)
_Loader.add_constructor("tag:yaml.org,2002:int", _whole)


def read_plain(path: Path) -> Any:
    """Raises OSError, Unreadable."""
    with open(path, "rb") as file:
        data = file.read(LARGEST_BYTES + 1)
    if len(data) > LARGEST_BYTES:
        raise Unreadable(f"larger than {LARGEST_BYTES >> 20} MiB, the maximum size; remove entries")
    try:
        return yaml.load(data.decode(), _Loader)
    except yaml.MarkedYAMLError as exc:
        mark = exc.problem_mark
        line = f"line {mark.line + 1}: " if mark else ""
        raise Unreadable(f"neither YAML nor JSON: {line}{exc.problem}") from None
    except (LookupError, AttributeError):  # As PyYAML has it of `!!bool perhaps`.
        raise Unreadable("neither YAML nor JSON: a value is not what its tag says") from None
    except RecursionError:
        raise Unreadable("neither YAML nor JSON: nested too deeply") from None
    except (
        yaml.YAMLError,
        ValueError,
    ) as exc:  # Bytes that are no text, dates and digits without end.
        raise Unreadable(f"neither YAML nor JSON: {' '.join(str(exc).split())[:200]}") from None
