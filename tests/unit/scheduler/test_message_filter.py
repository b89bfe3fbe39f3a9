# SPDX-License-Identifier: Apache-2.0
"""What is refused is counted by kind, and told more and more seldom."""

import logging

import pytest

from nova_vp.message_filter import KnownHosts, MessageFilter, RejectedMessage


def test_a_flood_is_told_at_powers_of_ten(caplog: pytest.LogCaptureFixture) -> None:
    refusals = MessageFilter()
    for number in range(1, 1001):
        refusals.note("malformed", "reports", ValueError(f"message {number}"))
    refusals.note("unwelcome", "reports", RejectedMessage("late"), logging.DEBUG)
    assert refusals.counts == {"malformed": 1000, "unwelcome": 1}
    latest = [record.getMessage().rpartition(" ")[2] for record in caplog.records]
    assert latest == ["1", "10", "100", "1000"]


def test_where_none_is_listed_every_host_is_known() -> None:
    KnownHosts().check("vp1")
    KnownHosts(["vp1"]).check("vp1")
    with pytest.raises(RejectedMessage, match=r"vp2: not among \[vp_scheduler\] known_hosts"):
        KnownHosts(["vp1"]).check("vp2")
