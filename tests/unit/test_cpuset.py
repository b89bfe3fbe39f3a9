# SPDX-License-Identifier: Apache-2.0
"""CPU lists of libvirt and the kernel."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nova_vp.cpuset import MAX_CPU, format_cpus, parse_cpus


@pytest.mark.parametrize(
    ("text", "cpus"),
    [
        ("", set()),
        ("0", {0}),
        ("0-3", {0, 1, 2, 3}),
        ("0,2-3", {0, 2, 3}),
        ("0-3,^2", {0, 1, 3}),
        ("^2,0-3", {0, 1, 3}),
        (" 4 , 6-7\n", {4, 6, 7}),
    ],
)
def test_lists_are_read(text, cpus):
    assert parse_cpus(text) == cpus


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "0-99999999", "1;2", "^"])
def test_what_is_no_list_is_refused(text):
    with pytest.raises(ValueError):
        parse_cpus(text)


@given(st.frozensets(st.integers(0, MAX_CPU), max_size=40))
def test_what_is_written_is_read_back(cpus):
    assert parse_cpus(format_cpus(cpus)) == cpus


def test_neighbours_are_written_as_ranges():
    assert format_cpus({5, 0, 1, 2}) == "0-2,5"
