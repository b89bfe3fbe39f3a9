# SPDX-License-Identifier: Apache-2.0
"""The agent's core and the shipped monitors on the modelled applications."""

import pytest
from rich.console import Console

from nova_vp.core.types.overlay import ArbitrationClass
from vp_sim.overlay import command, coordinated, published, setups, uncoordinated
from vp_sim.overlay.figures import Rubis


@pytest.fixture(scope="module")
def capped():
    figures = Rubis()
    setup = setups.rubis(figures, 1, figures.sessions, is_capped=True)
    setup.run_until(60 + figures.phase_s)
    return coordinated.served(setup, 60)


def test_tiers_serve_more_where_request_classes_tune_what_is_needed(capped):
    tuned = coordinated.rubis(1, borrows=0, phases=1)
    assert tuned.per_s > 1.2 * capped.per_s
    longest_ms = [max(one.p95_ms for one in case.of.values()) for case in (tuned, capped)]
    assert longest_ms[0] < longest_ms[1]


def test_swapped_request_classes_destroy_the_gain(capped):
    swapped = coordinated.rubis(1, borrows=0, phases=1, classes=coordinated.SWAPPED_CLASSES)
    assert swapped.per_s < 1.1 * capped.per_s


def test_islands_that_lend_end_sooner_and_keep_the_cap_of_the_host():
    alone, lending = (coordinated.parsec(1, lends=lends) for lends in (False, True))
    assert lending.seconds < 0.9 * alone.seconds
    assert lending.most_cores <= 20.0


@pytest.mark.parametrize(("arbitration", "web_has_it"), [("priority", 1.0), ("round-robin", 0.0)])
def test_arbitration_says_who_has_the_last_cpu(arbitration, web_has_it):
    found = coordinated.last_cpu(1, ArbitrationClass(arbitration))
    assert found["web_got_it"] == web_has_it
    assert found["words_got_it"] == 1.0 - web_has_it


def test_triggers_help_a_barrier_and_a_player_and_are_told_beside_what_is_printed():
    fits = (*uncoordinated._of_barrier(1), *uncoordinated._of_players(1))
    rows = (*published._barrier(1), *published._players(1))
    told = {one["figure"]: one for one in command.as_json(fits, rows)["changes"]}
    assert told["time of mpi"]["modelled"] < -0.1
    assert told["time of mpi"]["published"] == pytest.approx(-0.1386, abs=1e-4)
    assert told["time of mpi"]["direction_met"]
    for name in ("bs-first", "bs-second"):
        assert told[f"time of {name}"]["direction_met"]
        assert told[f"time of {name}"]["modelled"] < 0.04
    for figure in (
        "frames/s, triggered",
        "frames/s, its neighbour",
        "frames/s over the 20 needed, slow",
        "frames/s over the 25 needed, fast",
    ):
        assert told[figure]["direction_met"], figure
    assert told["frames/s of the fast one"]["published"] is None
    screen = Console(record=True, width=100)
    command.show(screen, fits, rows)
    assert "met, met" in screen.export_text()


@pytest.mark.parametrize(
    ("modelled", "direction", "size"),
    [(0.3, True, True), (0.21, True, True), (0.19, True, False), (-0.3, False, False)],
)
def test_a_size_is_met_within_a_third_of_what_is_printed(modelled, direction, size):
    row = published.Row("tiers", "requests/s", 0.3, modelled)
    assert (row.has_direction, row.has_size) == (direction, size)
