# SPDX-License-Identifier: Apache-2.0
"""A rate for each of many."""

from nova_vp.token_buckets import MOST_KEPT, TokenBuckets


def test_each_has_a_burst_and_gets_it_again_with_time() -> None:
    now_s = [0.0]
    rates = TokenBuckets(2.0, 3.0, lambda: now_s[0])
    assert [rates.take("a") for _ in range(4)] == [True, True, True, False]
    assert rates.take("b")
    now_s[0] = 0.5
    assert [rates.take("a") for _ in range(2)] == [True, False]
    now_s[0] = 100.0
    assert [rates.take("a") for _ in range(4)] == [True, True, True, False]


def test_a_flood_of_names_takes_no_more_memory() -> None:
    rates = TokenBuckets(1.0, 1.0, lambda: 0.0)
    for number in range(3 * MOST_KEPT):
        rates.take(str(number))
    assert len(rates._buckets) <= MOST_KEPT + 1
