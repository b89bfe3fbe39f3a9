# SPDX-License-Identifier: Apache-2.0
"""Hosts by their modes, page by page, and what holds once another mode is set."""

import pytest

from nova_vp.core.types.mode_levels import ModeLevel
from vp_dashboard import mode_change

CLOUD = {"level": "cloud", "name": "", "mode": "enforce"}
SSD = {"level": "aggregate", "name": "ssd", "mode": "advise"}
OWN = {"level": "host", "name": "", "mode": "observe"}


def a_host(name, mode="observe", level="cloud"):
    source = level and {"level": level, "name": ""}
    return {"name": name, "mode": mode, "mode_source": source}


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        ({}, ["a", "b", "c"]),
        ({"mode": "advise"}, ["b"]),
        ({"source": "host"}, ["b"]),
        ({"source": "cloud", "mode": "advise"}, []),
    ],
)
def test_hosts_by_mode_and_source(chosen, names):
    hosts = [a_host("a"), a_host("b", "advise", "host"), a_host("c", level=None)]
    assert [one["name"] for one in mode_change.matching(hosts, chosen)] == names


def test_a_thousand_hosts_are_ten_pages():
    hosts = [a_host(f"host-{number:03}") for number in range(1000)]
    seen, marker, pages = [], None, 0
    while True:
        rows, marker = mode_change.page(hosts, marker, 100)
        seen, pages = [*seen, *rows], pages + 1
        if marker is None:
            break
    assert (seen, pages) == (hosts, 10)


def test_a_marker_that_is_not_listed_any_more_begins_anew():
    hosts = [a_host("a"), a_host("b")]
    assert mode_change.page(hosts, "gone", 1) == ([hosts[0]], "a")


@pytest.mark.parametrize(
    ("levels", "level", "mode", "expected"),
    [
        ([CLOUD, SSD], ModeLevel.HOST, "observe", ("observe", "host", "")),
        ([CLOUD, SSD], ModeLevel.HOST, "enforce", ("advise", "aggregate", "ssd")),
        ([CLOUD, OWN], ModeLevel.HOST, None, ("enforce", "cloud", "")),
        ([CLOUD, OWN], ModeLevel.SERVER, "advise", ("observe", "host", "")),
        ([OWN], ModeLevel.HOST, None, ("observe", "default", "")),
    ],
)
def test_what_holds_then(levels, level, mode, expected):
    found = mode_change.then(levels, level, mode)
    assert (found["mode"], found["source"]["level"], found["source"]["name"]) == expected


def test_what_is_set_now():
    assert mode_change.set_on(ModeLevel.HOST, [CLOUD, OWN]) == "observe"
    assert mode_change.set_on(ModeLevel.HOST, [CLOUD]) is None
