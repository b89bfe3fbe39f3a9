# SPDX-License-Identifier: Apache-2.0
"""The application table: every figure says where it comes from, and a row alone has its class."""

from random import Random

import pytest

from tests.unit.sim.solo import APPS, alone
from vp_sim.app_profiles import ROWS
from vp_sim.apps import app_of
from vp_sim.kyoto_profiles import KYOTO_HARDWARE
from vp_sim.machine import WESTMERE
from vp_sim.parameters import Drawn

FIGURES = [
    *((row.name, name, figure) for row in ROWS.values() for name, figure in row.figures().items()),
    *(("machine", name, figure) for name, figure in WESTMERE.figures().items()),
    *(("kyoto", name, figure) for name, figure in KYOTO_HARDWARE.figures().items()),
]


@pytest.mark.parametrize(("row", "name", "figure"), FIGURES)
def test_every_figure_has_a_source_and_only_guesses_have_a_range(row, name, figure):
    kind, _, place = figure.source.partition(": ")
    assert kind in ("seed", "kyoto", "public", "estimated"), (row, name)
    assert place, (row, name)
    assert figure.low <= figure.value <= figure.high
    assert figure.is_estimated or figure.low == figure.high


@pytest.mark.parametrize("row", ROWS.values(), ids=lambda row: row.name)
def test_phases_fill_the_job_and_say_where_they_come_from(row):
    assert sum(phase.time_share for phase in row.phases) == pytest.approx(1.0)
    assert row.phases_source.partition(":")[0] in ("seed", "public", "estimated")


@pytest.mark.parametrize(
    ("name", "factor", "mpki"),
    [
        # Figure 3 and sections 2.1.2 and 2.3: the class each application has alone.
        ("stream", (0.9, 1.0), (15, 100)),
        ("milc", (0.9, 1.0), (15, 100)),
        ("mcf", (0.0, 0.25), (2, 15)),
        ("lbm", (0.6, 1.0), (2, 15)),
        ("voldemort", (0.45, 0.55), (15, 100)),
        ("matrix-mult", (0.0, 0.25), (15, 100)),
        ("word-count", (0.0, 0.25), (2, 15)),
        ("streaming", (0.45, 0.57), (2, 15)),
    ],
)
def test_an_application_alone_has_the_printed_class(name, factor, mpki):
    speed = alone(name)
    assert factor[0] <= speed.memory_factor <= factor[1]
    assert mpki[0] <= speed.mpki < mpki[1]


def test_a_draw_takes_estimates_from_their_ranges_and_leaves_the_rest():
    row = ROWS["mcf"]
    drawn = app_of(row, Drawn(Random(1)))
    figures = row.figures()
    assert all(f.low <= getattr(drawn, name) <= f.high for name, f in figures.items())
    assert drawn.footprint_mib == APPS["mcf"].footprint_mib
    assert drawn.l2_mpki != APPS["mcf"].l2_mpki
    again = app_of(row, Drawn(Random(1)))
    assert all(getattr(again, name) == getattr(drawn, name) for name in figures)
