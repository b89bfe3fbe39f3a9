# SPDX-License-Identifier: Apache-2.0
"""The host view under good, late, repeated, foreign and hostile digests."""

import re

import pytest

from nova_vp import wire
from nova_vp.message_filter import RejectedMessage
from nova_vp.signing.keyring import ToldKeys
from tests.identities import call_of
from tests.messages import a_domain, digest_text, hear
from vp_scheduler.placement import host_view
from vp_scheduler.placement.host_view import HostView
from vp_scheduler.placement.listener import DigestEndpoint

pytestmark = pytest.mark.nova

BAD_MARKS = digest_text().replace('"known":""', '"known":"#"')


class Clock:
    now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def view(clock: Clock) -> HostView:
    return HostView(180.0, clock=clock)


def seen(view: HostView, host: str = "vp1") -> tuple[int, int] | None:
    digest = view.get(host)
    return (digest.version.epoch, digest.version.sequence) if digest else None


@pytest.mark.parametrize(
    ("label", "orders", "expected"),
    [
        ("in order", [(1, 1), (1, 2)], (1, 2)),
        ("late", [(1, 2), (1, 1)], (1, 2)),
        ("restarted agent counts from one again", [(1, 9), (2, 1)], (2, 1)),
        ("late one of the agent before", [(2, 1), (1, 10)], (2, 1)),
        ("duplicated", [(1, 1), (1, 1)], (1, 1)),
    ],
)
def test_newest_wins(
    view: HostView, label: str, orders: list[tuple[int, int]], expected: tuple[int, int]
) -> None:
    endpoint = DigestEndpoint(view, ToldKeys())
    for order in orders:
        endpoint.digest(call_of(), digest_text("vp1", a_domain(), order=order))
    assert seen(view) == expected, label


def test_a_host_is_unknown_until_heard_and_once_stale(view: HostView, clock: Clock) -> None:
    assert seen(view) is None
    hear(view, digest_text())
    clock.now_s += 180.0
    assert seen(view) == (1, 1)
    clock.now_s += 0.1
    assert seen(view) is None


def test_old_numbers_in_a_new_message_are_old(view: HostView, clock: Clock) -> None:
    hear(view, digest_text(age_ms=100_000))
    clock.now_s += 80.1
    assert seen(view) is None


def test_a_stale_host_is_heard_whatever_its_epoch(view: HostView, clock: Clock) -> None:
    hear(view, digest_text(order=(9, 9)))
    clock.now_s += 181
    hear(view, digest_text(order=(1, 1)))
    assert seen(view) == (1, 1)


@pytest.mark.parametrize("text", [None, "{", digest_text() + " " * 5000, BAD_MARKS])
def test_hostile_messages_change_nothing(view: HostView, text: object) -> None:
    hear(view, digest_text())
    endpoint = DigestEndpoint(view, ToldKeys())
    endpoint.digest(call_of(), text)
    assert endpoint.refusals.counts["malformed"] == 1
    assert seen(view) == (1, 1)


def test_whole_numbers_may_be_written_with_a_point(view: HostView) -> None:
    hear(view, digest_text("vp1", a_domain(2, newcomer=0.1)))
    plain = view.get("vp1")
    text = re.sub(
        r"(?<=[:,\[])(\d+)(?=[,\]}])", r"\1.0", digest_text("vp1", a_domain(2, newcomer=0.1))
    )
    hear(view, text.replace('"seq":1.0', '"seq":2.0'))
    pointed = view.get("vp1")
    assert pointed is not None
    assert plain is not None
    assert pointed.version == wire.MessageVersion(1, 2)
    assert (pointed.losses, pointed.cpus, pointed.domain_ids) == (plain.losses, (4,), (2,))


def test_a_flood_is_told_in_few_lines(view: HostView, caplog: pytest.LogCaptureFixture) -> None:
    endpoint = DigestEndpoint(view, ToldKeys())
    for _ in range(150):
        endpoint.digest(call_of(), "x")
    assert [record.args[0] for record in caplog.records if record.args] == [1, 10, 100]


def test_only_known_hosts_are_listened_to(clock: Clock) -> None:
    view = HostView(180.0, ["vp1"], clock)
    hear(view, digest_text("vp1"))
    with pytest.raises(RejectedMessage):
        hear(view, digest_text("vp2"))
    assert seen(view, "vp2") is None


@pytest.fixture
def small_view(view: HostView, monkeypatch: pytest.MonkeyPatch) -> HostView:
    """With room for three hosts."""
    monkeypatch.setattr(host_view, "MAX_HOSTS", 3)
    return view


def hear_hosts(view: HostView, *hosts: str, times: int = 1) -> None:
    for host in hosts:
        for _ in range(times):
            epoch, sequence = seen(view, host) or (1, 0)
            view.accept(digest_text(host, order=(epoch, sequence + 1)), host)


def known(view: HostView) -> set[str]:
    digests, _ = view.read()
    return set(digests)


def test_invented_hosts_push_out_each_other_and_no_host_that_was_heard_again(
    small_view: HostView,
) -> None:
    hear_hosts(small_view, "vp1", "vp2", times=2)
    for number in range(100):
        hear_hosts(small_view, f"invented{number}")
        assert known(small_view) == {"vp1", "vp2", f"invented{number}"}


def test_while_all_hosts_are_fresh_and_heard_again_a_new_one_is_refused(
    small_view: HostView, clock: Clock
) -> None:
    hear_hosts(small_view, "vp1", "vp2", "vp3", times=2)
    for _ in range(3):
        with pytest.raises(RejectedMessage, match="vp4: more than 3 hosts"):
            hear_hosts(small_view, "vp4")
        clock.now_s += 90
        hear_hosts(small_view, "vp1", "vp2", "vp3")
    assert known(small_view) == {"vp1", "vp2", "vp3"}


@pytest.mark.parametrize("times", [1, 2])
def test_a_new_host_takes_the_place_of_the_one_that_is_stale_for_longest(
    small_view: HostView, clock: Clock, times: int
) -> None:
    for host in ("vp1", "vp2", "vp3"):
        hear_hosts(small_view, host, times=times)
        clock.now_s += 60
    hear_hosts(small_view, "vp2")
    clock.now_s += 121
    hear_hosts(small_view, "vp4")
    assert known(small_view) == {"vp2", "vp3", "vp4"}, "vp1 is unheard for 301 s"
    hear_hosts(small_view, "vp5")
    assert known(small_view) == {"vp2", "vp4", "vp5"}, "vp3 is unheard for 181 s"


def test_a_stale_host_goes_before_a_fresh_one_that_was_heard_once(
    small_view: HostView, clock: Clock
) -> None:
    hear_hosts(small_view, "vp1", times=2)
    clock.now_s += 100
    hear_hosts(small_view, "vp2", "vp3")
    clock.now_s += 81
    hear_hosts(small_view, "vp4")
    assert known(small_view) == {"vp2", "vp3", "vp4"}


def test_a_host_that_comes_back_after_it_was_stale_is_new(
    small_view: HostView, clock: Clock
) -> None:
    hear_hosts(small_view, "vp1", times=2)
    clock.now_s += 181
    hear_hosts(small_view, "vp1")
    hear_hosts(small_view, "vp2", "vp3", times=2)
    hear_hosts(small_view, "vp4")
    assert known(small_view) == {"vp2", "vp3", "vp4"}


def test_too_many_hosts_are_told_once_and_stale_ones_never(
    small_view: HostView, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    hear_hosts(small_view, "vp1", "vp2", "vp3")
    clock.now_s += 181
    hear_hosts(small_view, "vp4", "vp5", "vp6")
    assert caplog.records == []
    for number in range(5):
        hear_hosts(small_view, f"invented{number}")
    [record] = caplog.records
    assert record.levelname == "WARNING"
    assert "[vp_scheduler] known_hosts" in record.getMessage()


def test_bad_marks_are_a_bad_message(view: HostView) -> None:
    with pytest.raises(wire.BadMessage):
        view.accept(BAD_MARKS, "vp1")
