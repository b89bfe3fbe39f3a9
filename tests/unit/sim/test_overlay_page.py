# SPDX-License-Identifier: Apache-2.0
"""The tables of the page *The model of overlays*."""

import pytest

from tests.bench import overlay_page
from vp_sim.overlay import command, uncoordinated
from vp_sim.overlay.published import Row

ROWS = (
    Row("tiers", "requests/s", 0.5, 0.4, "T table 5"),
    Row("tiers", "sessions", 0.8, None, "I table 2"),
    Row("tiers", "efficiency", 0.2, -0.1, "T table 5"),
    Row("tiers", "classes swapped", None, 0.03),
)


def test_tables_show_misses_and_what_is_not_modelled():
    found = command.as_json((), ROWS)
    places = overlay_page.tables(found)
    assert (
        "Of 3 published figures 2 are modelled. 1 of them have the direction, 1 the size."
        in (places["count"])
    )
    lines = places["changes"].splitlines()[2:]
    assert [line.split(" | ")[-2:] for line in lines] == [
        ["met", "met |"],
        ["not modelled", "not modelled |"],
        ["missed", "missed |"],
        ["", " |"],
    ]


def test_only_the_places_of_the_page_are_written():
    page = "before\n<!-- count -->\nold\n<!-- end -->\nafter\n"
    written = overlay_page.put(page, {"count": "new"})
    assert written == page.replace("old", "new")
    with pytest.raises(SystemExit, match="add it"):
        overlay_page.put(page, {"changes": "new"})


def test_the_picture_has_a_line_for_each_figure_that_is_modelled(tmp_path):
    path = tmp_path / "model.svg"
    overlay_page.draw(command.as_json((), ROWS)["changes"], path)
    drawn = path.read_text()
    assert "tiers: requests/s" in drawn
    assert "tiers: sessions" not in drawn


@pytest.mark.parametrize("fits", [uncoordinated._of_barrier, uncoordinated._of_players])
def test_the_page_has_what_the_model_comes_to_today(fits):
    """If not: `vp-sim overlay --json | python -m tests.bench.overlay_page`."""
    lines = overlay_page.tables(command.as_json(fits(seed=1), ()))["uncoordinated"].splitlines()
    page = overlay_page.PAGE.read_text().splitlines()
    assert set(lines) <= set(page)
