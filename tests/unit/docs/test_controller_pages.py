# SPDX-License-Identifier: Apache-2.0
"""A page for each controller: what its package says, and tables of what it declares."""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from nova_vp import controller_pages, controllers
from nova_vp.core.controllers.base import Controller
from nova_vp.core.types.declaration import FlavorKey, option
from nova_vp.core.types.reason import Reason
from tests.pages import rows, section


class When(enum.Enum):
    NEVER = "never"
    NIGHT = "night"


@dataclass(frozen=True)
class Settings:
    share: float = option(0.5, "Share | of all.", minimum=0.1, maximum=1.0, formerly="old_share")
    most: int = option(3, "At most.", minimum=1)
    is_strict: bool = option(False, "Strictly.")
    name: str = option("all", "A name.")
    when: When = option(When.NIGHT, "When.", choices={When.NEVER: "not at all", When.NIGHT: "late"})


class Bare(Controller):
    name = "bare"
    summary = "does nothing"


class Full(Bare):
    name = "full"
    is_default = True
    settings = Settings
    reasons = (
        Reason("full-stop", 450, "it is full", "it was stopped", is_verified=True),
        Reason("full-go", 451, "it is not", "it goes", is_counted=True),
    )
    flavor_keys = (
        FlavorKey("vp:full", "How full.", "one of yes, no", str, "no", allowed=("yes", "no")),
        FlavorKey("vp:room", "Room.", "a number", int, 0, pattern="[0-9]+"),
    )


def test_a_controller_without_a_page_has_one_with_its_summary_and_no_empty_tables() -> None:
    page = controller_pages.page_of(Bare())
    assert page.startswith("# bare\n\nThis controller does nothing.\n")
    assert "off by default" in section(page, "Options")
    assert "no options of its own" in section(page, "Options")
    assert "## Flavor keys" not in page
    assert "## Reasons" not in page


def test_options_are_listed_with_default_bounds_and_meaning() -> None:
    text = section(controller_pages.page_of(Full()), "Options")
    assert "enabled by default" in text
    assert "`[controller_full]`" in text
    assert [row[:3] for row in rows(text)[1:]] == [
        ["`share`", "`0.5`", "at least 0.1, at most 1.0"],
        ["`most`", "`3`", "at least 1"],
        ["`is_strict`", "`False`", "`True`, `False`"],
        ["`name`", "`all`", ""],
        ["`when`", "`night`", "`never`, `night`"],
    ]
    meanings = [row[3] for row in rows(text)[1:]]
    assert meanings[0].startswith("Share \\| of all. ")
    assert "`[policy] old_share`, is still read" in meanings[0]
    assert meanings[4] == "When. `never`: not at all; `night`: late."


def test_flavor_keys_and_reasons_are_listed() -> None:
    page = controller_pages.page_of(Full())
    assert rows(section(page, "Flavor keys"))[1:] == [
        ["`vp:full`", "`yes`, `no`", "How full."],
        ["`vp:room`", "a number", "Room."],
    ]
    assert rows(section(page, "Reasons"))[1:] == [
        ["`full-stop`", "450", "yes", "no", "it is full"],
        ["`full-go`", "451", "no", "yes", "it is not"],
    ]


def test_the_written_page_comes_first() -> None:
    for name, page in controller_pages.pages().items():
        assert page.startswith(f"# {name}: ")
        assert page.index("\n## Options\n") > 500


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> dict[str, Controller]:
    found: dict[str, Controller] = {}
    monkeypatch.setattr(controllers, "installed", lambda: found)
    return found


def names(paths: Iterable[Path]) -> set[str]:
    return {path.name for path in paths}


def test_the_folder_has_one_file_for_each_controller_and_no_other_page(
    tmp_path: Path, known: dict[str, Controller]
) -> None:
    folder = tmp_path / "pages"
    known.update(bare=Bare(), full=Full())
    controller_pages.write_pages(folder)
    assert names(folder.iterdir()) == {"bare.md", "full.md"}
    times: Mapping[str, int] = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    del known["full"]
    controller_pages.write_pages(folder)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == {
        "bare.md": times["bare.md"]
    }, "a page that is right is not written again"
    (folder / "bare.md").write_text("old")
    controller_pages.write_pages(folder)
    assert (folder / "bare.md").read_text() == controller_pages.page_of(Bare())
