# SPDX-License-Identifier: Apache-2.0
"""What misses cost each server is kept across restarts, and damage is told and ignored."""

import json
import math

import pytest

from nova_vp import wire
from nova_vp.core.model.miss_cost import faded
from nova_vp.core.types.sample import MissCost
from vp_agent.loop.kept_miss_costs import FORGOTTEN_AFTER_S, HALVED_AFTER_S
from vp_agent.loop.state import StateFolder

NOW_S = 1.8e9
COST = MissCost(60.0, 30.0, 10.0, 2.5, 400.0, 20.0, 2.0)
FALLING = COST._replace(products=-20.0)
FILE = "miss_costs.json"


@pytest.fixture
def state(tmp_path):
    return StateFolder(str(tmp_path))


def test_it_is_read_as_it_was_written(state):
    assert state.miss_costs(NOW_S) == {}
    state.set_miss_costs({"u1": COST, "u2": FALLING}, NOW_S)
    assert state.miss_costs(NOW_S) == {"u1": COST, "u2": FALLING}


def test_what_is_old_counts_less_and_what_is_very_old_nothing(state):
    state.set_miss_costs({"u1": COST}, NOW_S)
    assert state.miss_costs(NOW_S + HALVED_AFTER_S) == {"u1": faded(COST, 0.5)}
    assert state.miss_costs(NOW_S + FORGOTTEN_AFTER_S + 1) == {}


def test_a_clock_that_was_set_back_makes_nothing_count_more(state):
    state.set_miss_costs({"u1": COST}, NOW_S)
    assert state.miss_costs(NOW_S - 86400) == {"u1": COST}


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{", "[" * 9999, "{}", '{"at": 1}', '{"at": 1, "servers": 1}', b"\xff"),
        '{"at": 1, "servers": {"u1": []}}',
        '{"at": 1, "servers": {"u1": {"a": 1}}}',
        '{"at": null, "servers": {}}',
        '{"at": NaN, "servers": {}}',
    ],
)
def test_a_damaged_file_is_told_and_ignored(state, tmp_path, caplog, text):
    (tmp_path / FILE).write_bytes(text if isinstance(text, bytes) else text.encode())
    assert state.miss_costs(NOW_S) == {}
    assert caplog.messages
    assert all(FILE in told and len(told) < 400 for told in caplog.messages)


@pytest.mark.parametrize(
    "bad",
    [
        {"weight": 101.0},
        {"weight": -1.0},
        {"l2_mpki": 1e7},
        {"mpki": math.inf},
        {"mpki": -1.0},
        {"cpi": math.nan},
        {"cpi": 1e300},
        {"mpki_squares": -1.0},
        {"mpki_squares": 1e300},
        {"products": 29.0},
        {"products": -29.0},
        {"products": math.nan},
        {"cpi_squares": -1e-9},
        {"cpi_squares": "soup"},
    ],
)
def test_what_no_samples_can_be_is_not_believed(state, tmp_path, bad):
    state.set_miss_costs({"u1": COST}, NOW_S)
    file = json.loads((tmp_path / FILE).read_text())
    file["servers"]["u1"] = [*COST._replace(**bad)]
    (tmp_path / FILE).write_text(json.dumps(file))
    assert state.miss_costs(NOW_S) == {}


def test_there_are_no_more_than_the_servers_of_a_host(state):
    servers = {f"u{number}": COST for number in range(wire.MAX_SERVERS)}
    state.set_miss_costs(servers, NOW_S)
    assert len(state.miss_costs(NOW_S)) == wire.MAX_SERVERS
    state.set_miss_costs({**servers, "one more": COST}, NOW_S)
    assert state.miss_costs(NOW_S) == {}
