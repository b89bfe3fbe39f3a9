# SPDX-License-Identifier: Apache-2.0
"""The publisher's thread: latest only, never in the way of the tick, patient with its sender."""

import json
import logging
import threading
from typing import Any

import pytest

from nova_vp import wire
from tests.decisions import a_decision, a_view, an_eventful_view, facts
from tests.waiting import wait_until
from vp_agent.publish import bus
from vp_agent.publish.bus import BusPublisher
from vp_agent.publish.schedule import Intervals

QUICK = Intervals(refresh_s=3600.0, min_s=0.0)


class Sent:
    """A sender that keeps what it is given; it can be held up or made to fail."""

    def __init__(self) -> None:
        self.messages: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self.digests: list[dict[str, Any]] = []
        """Those that went alone."""
        self.tries = 0
        self.digest_tries = 0
        self.open = threading.Event()
        self.open.set()
        self.fault: Exception | None = None

    def send(self, digest_text: str, report_text: str) -> None:
        self.tries += 1
        self.open.wait()
        if self.fault:
            raise self.fault
        self.messages.append((json.loads(digest_text), json.loads(report_text)))

    def send_digest(self, text: str) -> None:
        self.digest_tries += 1
        if self.fault:
            raise self.fault
        self.digests.append(json.loads(text))


@pytest.fixture
def sent() -> Sent:
    return Sent()


@pytest.fixture
def publisher(sent: Sent) -> Any:
    publisher = BusPublisher(sent, facts, QUICK, epoch=5, dice=lambda: 0.0)
    yield publisher
    sent.open.set()
    publisher.close()


def states(sent: Sent) -> list[list[int]]:
    return [[vp["state"] for vp in report["vps"]] for _, report in sent.messages]


def levels(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.levelname for record in caplog.records if record.name == bus.__name__]


def test_news_are_sent_with_epoch_and_rising_sequence(publisher: BusPublisher, sent: Sent) -> None:
    publisher.publish(a_decision(a_view(1, 1)), ())
    wait_until(lambda: len(sent.messages) == 1, "the first message")
    publisher.publish(a_decision(a_view(1, 1)), ())
    publisher.publish(a_decision(a_view(1, 7)), ())
    wait_until(lambda: len(sent.messages) == 2, "the news")
    assert states(sent) == [[1], [7]]
    orders = [[(m["epoch"], m["seq"]) for m in pair] for pair in sent.messages]
    assert orders == [[(5, 1), (5, 1)], [(5, 2), (5, 2)]]


def test_a_slow_bus_costs_all_but_the_latest(publisher: BusPublisher, sent: Sent) -> None:
    sent.open.clear()
    publisher.publish(a_decision(a_view(1, 0)), ())
    wait_until(lambda: sent.tries == 1, "the first try")
    for state in (1, 2, 3, 4):
        publisher.publish(a_decision(a_view(1, state)), ())
    sent.open.set()
    wait_until(lambda: len(sent.messages) == 2, "the latest")
    assert states(sent) == [[0], [4]]


def test_a_failure_is_told_once_and_made_good(
    publisher: BusPublisher, sent: Sent, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    sent.fault = OSError("no broker")
    publisher.publish(a_decision(), ())
    wait_until(lambda: sent.tries == 2, "a second try")
    sent.fault = None
    wait_until(lambda: sent.messages, "the message", deadline_s=10)
    wait_until(lambda: levels(caplog) == ["WARNING", "INFO"], "both log lines")
    assert "`vp-agent check`" in caplog.text


def test_it_speaks_again_when_asked(publisher: BusPublisher, sent: Sent) -> None:
    publisher.publish(a_decision(), ())
    wait_until(lambda: len(sent.messages) == 1, "the first message")
    publisher.republish(within_s=5.0)
    wait_until(lambda: len(sent.messages) == 2, "the answer")
    assert sent.messages[1][0]["seq"] == 2


def test_who_asks_for_the_digest_alone_gets_no_report(publisher: BusPublisher, sent: Sent) -> None:
    publisher.publish(a_decision(), ())
    wait_until(lambda: len(sent.messages) == 1, "the first message")
    publisher.republish_digest(within_s=5.0)
    wait_until(lambda: sent.digests, "the answer")
    assert sent.digests[0]["seq"] == 2
    publisher.publish(a_decision(a_view(1, 7)), ())
    wait_until(lambda: len(sent.messages) == 2, "the news")
    assert sent.messages[1][0]["seq"] == 3


def test_news_and_a_digest_that_failed_go_with_the_report(
    publisher: BusPublisher, sent: Sent
) -> None:
    publisher.publish(a_decision(), ())
    wait_until(lambda: len(sent.messages) == 1, "the first message")
    sent.fault = OSError("no broker")
    publisher.republish_digest(within_s=0.0)
    wait_until(lambda: sent.digest_tries == 1, "the digest to fail")
    publisher.publish(a_decision(a_view(1, 7)), ())
    sent.fault = None
    wait_until(lambda: len(sent.messages) == 2, "both", deadline_s=10)
    assert (sent.digests, sent.digest_tries) == ([], 1)


def test_a_report_that_is_too_large_loses_history_first(
    publisher: BusPublisher, sent: Sent
) -> None:
    publisher.publish(a_decision(*[an_eventful_view(n, actions=16) for n in range(150)]), ())
    _, report = wait_until(lambda: sent.messages, "the message")[0]
    assert [len(vp["actions"]) for vp in report["vps"]] == [4] * 150
    assert len(wire.compact(report)) <= wire.MAX_REPORT_BYTES


def test_closing_does_not_wait_for_a_bus_that_hangs(sent: Sent) -> None:
    publisher = BusPublisher(sent, facts, QUICK, epoch=1)
    sent.open.clear()
    publisher.publish(a_decision(), ())
    wait_until(lambda: sent.tries == 1, "the try")
    closing = threading.Thread(target=publisher.close)
    closing.start()
    closing.join(10)
    assert not closing.is_alive()
    sent.open.set()
