# SPDX-License-Identifier: Apache-2.0
"""Pages of tables as tests read them: sections, rows, codes, and options with their defaults."""

import dataclasses
import enum
import json
import re
from typing import Any

from nova_vp.controller_pages import FLAVOR_KEYS, OPTIONS, REASONS, page_of
from nova_vp.core.controllers.base import Controller
from nova_vp.core.types.policy import Policy


def section(page: str, title: str) -> str:
    """Without the sections below it."""
    return re.split(r"\n#+ ", re.split(rf"\n#+ {title}\n", page)[1])[0]


def rows(text: str) -> list[list[str]]:
    """Cells of every row of its tables, the headings too, without the lines below them."""
    lines = re.findall(r"^\|(?! ?-)(.*)\|$", text, re.M)
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)] for line in lines]


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def first_codes(text: str) -> list[str]:
    return [code for row in rows(text) for code in codes(row[0])]


def wrong_numbers(page: str, *groups: Any) -> dict[str, str]:
    """Every `option = value` that is not the default in one of these."""
    defaults = {name: value for one in groups for name, value in dataclasses.asdict(one).items()}
    named = re.findall(r"`(\w+) = ([\w.]+)`", page)
    assert named, "no option is named with its default"
    return {name: told for name, told in named if not _is_default(told, defaults.get(name))}


def _is_default(told: str, default: Any) -> bool:
    if isinstance(default, enum.Enum):
        return told in {member.value for member in type(default)}
    return default is not None and bool(json.loads(told) == default)


def check_page(one: Controller) -> str:
    """What holds for the page of every controller of this project. Returns the page."""
    page = page_of(one)
    assert page.startswith(f"# {one.name}: "), "its page.md is missing"
    assert wrong_numbers(page, Policy(), one.settings()) == {}
    _check_tables(page, one)
    return page


def _check_tables(page: str, one: Controller) -> None:
    options = [field.name for field in dataclasses.fields(one.settings)]
    if options:
        assert first_codes(section(page, OPTIONS)) == options
    if one.flavor_keys:
        assert first_codes(section(page, FLAVOR_KEYS)) == [key.key for key in one.flavor_keys]
    told = [
        (codes(code)[0], int(rank), verified, counted)
        for code, rank, verified, counted, _ in rows(section(page, REASONS))[1:]
    ]
    words = {True: "yes", False: "no"}
    assert told == [
        (r.code, r.rank, words[r.is_verified], words[r.is_counted]) for r in one.reasons
    ]
