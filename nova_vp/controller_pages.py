# SPDX-License-Identifier: Apache-2.0
"""The documentation of the installed controllers: one Markdown page for each.

A page is `page.md` of the controller's package, followed by tables of what the controller declares.
The documentation build calls `write_pages`; a controller of another package needs no change here.
"""

import dataclasses
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from nova_vp import controllers
from nova_vp.conf.controller_settings import POLICY, group_of
from nova_vp.core.controllers.base import Controller
from nova_vp.core.types.declaration import FlavorKey
from nova_vp.core.types.reason import Reason

PAGE = "page.md"
OPTIONS, FLAVOR_KEYS, REASONS = "Options", "Flavor keys", "Reasons"
"""Titles of the generated sections."""


def pages() -> Mapping[str, str]:
    """By name of the controller."""
    return {name: page_of(one) for name, one in controllers.installed().items()}


def write_pages(folder: Path) -> None:
    """One file for each installed controller, and no other Markdown file in that folder. A file
    that is right already keeps its time, so that it is not built again."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {folder / f"{name}.md": text for name, text in pages().items()}
    for path in set(folder.glob("*.md")) - wanted.keys():
        path.unlink()
    for path, text in wanted.items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def page_of(one: Controller) -> str:
    return "\n".join([_written(one) or _stub(one), *_generated(one)])


def _written(one: Controller) -> str:
    """`page.md` of its package; empty: there is none."""
    module = sys.modules[type(one).__module__]
    if not module.__package__:
        return ""  # A module that lies in no package has no files beside it.
    file = resources.files(module.__package__) / PAGE
    return file.read_text(encoding="utf-8").rstrip() + "\n" if file.is_file() else ""


def _stub(one: Controller) -> str:
    return f"# {one.name}\n\nThis controller {one.summary}.\n"


def _generated(one: Controller) -> Iterator[str]:
    yield f"## {OPTIONS}\n"
    yield _enabling(one)
    if dataclasses.fields(one.settings):
        yield f"Its options are in the group `[{group_of(one.name)}]`:\n"
        header = ("option", "default", "allowed", "meaning")
        yield _table(header, map(_option_row, dataclasses.fields(one.settings)))
    else:
        yield "It has no options of its own.\n"
    if one.flavor_keys:
        yield f"## {FLAVOR_KEYS}\n"
        yield _table(("key", "values", "meaning"), map(_key_row, one.flavor_keys))
    if one.reasons:
        yield f"## {REASONS}\n"
        yield (
            "The reasons of its actions. Of two claims to a setting with one owner, the one with "
            "the lower rank\nis granted. A *verified* action is reverted if it has no effect. A "
            "*counted* one counts against\nthe budgets of actions, such as "
            "`[policy] moves_per_minute`.\n"
        )
        columns = ("reason", "rank", "verified", "counted", "meaning")
        yield _table(columns, map(_reason_row, one.reasons))


def _enabling(one: Controller) -> str:
    whether = "enabled by default" if one.is_default else "off by default"
    return f"This controller is {whether}. `[{POLICY}] controllers` lists the enabled ones.\n"


def _option_row(field: "dataclasses.Field[Any]") -> Sequence[str]:
    about = field.metadata
    default = field.default.value if about["choices"] else field.default
    meaning = about["description"]
    if about["choices"]:
        listed = (f"`{value.value}`: {told}" for value, told in about["choices"].items())
        meaning = f"{meaning} {'; '.join(listed)}."
    if about["formerly"]:
        meaning += f" Its former name, `[{POLICY}] {about['formerly']}`, is still read."
    return f"`{field.name}`", f"`{default}`", _allowed(field), meaning


def _allowed(field: "dataclasses.Field[Any]") -> str:
    about = field.metadata
    if about["choices"]:
        return ", ".join(f"`{value.value}`" for value in about["choices"])
    if isinstance(field.default, bool):
        return "`True`, `False`"
    bounds = (("at least", about["minimum"]), ("at most", about["maximum"]))
    return ", ".join(f"{word} {bound}" for word, bound in bounds if bound is not None)


def _key_row(key: FlavorKey[Any]) -> Sequence[str]:
    values = ", ".join(f"`{value}`" for value in key.allowed) or key.expected
    return f"`{key.key}`", values, key.description


def _reason_row(reason: Reason) -> Sequence[str]:
    flags = ("yes" if flag else "no" for flag in (reason.is_verified, reason.is_counted))
    return f"`{reason.code}`", str(reason.rank), *flags, reason.label


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").split())
