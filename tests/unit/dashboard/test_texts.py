# SPDX-License-Identifier: Apache-2.0
import pytest

from vp_dashboard import texts


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("since 2026-01-02T03:04:05Z; acting", "since 2026-01-02 03:04:05 UTC; acting"),
        ("2026-01-02T03:04:00Z", "2026-01-02 03:04 UTC"),
        ("to 2026-01-02T03:04:05.5Z", "to 2026-01-02 03:04:05 UTC"),
        (
            "moved to domain 1, which is\n  longer\nrejected",
            "moved to domain 1, which is longer\nrejected",
        ),
        ("name T03:04:05Z", "name T03:04:05Z"),
    ],
)
def test_readable(told, shown):
    assert texts.readable(told) == shown


def test_results_say_whether_it_helped():
    assert texts.result("mended") == "the degradation ended"
    assert texts.result("proposed") == "it waits for an operator"
    assert texts.result("of-another-release") == "of-another-release"


def test_spans():
    assert [texts.span(hours) for hours in (1, 6, 24, 168)] == [
        "1 hour",
        "6 hours",
        "24 hours",
        "7 days",
    ]


def test_memory():
    assert [texts.memory(kib) for kib in (512, 786432, 1572864)] == [
        "0.5 MiB",
        "768 MiB",
        "1.5 GiB",
    ]
