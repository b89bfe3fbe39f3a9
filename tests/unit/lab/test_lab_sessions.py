# SPDX-License-Identifier: Apache-2.0
"""Clients of an application in guests: what they send and what they measure."""

import http.server
import math
import socketserver
import threading

import pytest

from testbed.lab.sessions import Answer, Request, Sessions, percentile, served_of
from tests.waiting import wait_until

BROWSE, BID = Request.parse("GET /browse/7"), Request.parse("POST /bid")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self) -> None:
        self.server.asked.append(f"{self.command} {self.path}")
        self.send_response(self.server.status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        self.answer()

    def do_POST(self) -> None:
        self.answer()

    def log_message(self, *_: object) -> None:
        """Nobody reads it."""


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    block_on_close = False


@pytest.fixture
def web():
    server = Server(("127.0.0.1", 0), Handler)
    server.asked, server.status = [], 200
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def sessions(web, mix, count=4):
    return Sessions("127.0.0.1", mix, count, think_s=0.0, port=web.server_address[1])


def test_a_mix_is_sent_by_all_sessions_and_may_change(web):
    with sessions(web, {BROWSE: 3.0, BID: 1.0}) as clients:
        wait_until(lambda: len(clients.answers) >= 200, "requests to be answered")
        kinds = [one.kind for one in clients.answers]
        assert 0.5 < kinds.count("browse") / len(kinds) < 0.95
        clients.mix = {BID: 1.0}
        seen = len(web.asked)
        wait_until(lambda: len(web.asked) >= seen + 100, "the other mix")
    assert web.asked[seen + 8 :].count("GET /browse/7") == 0
    assert clients.failed == []


def test_what_is_not_answered_by_200_failed(web):
    web.status = 503
    with sessions(web, {BROWSE: 1.0}) as clients:
        wait_until(lambda: clients.failed, "a refusal")
    assert clients.failed[0] == "503 Service Unavailable"
    assert clients.answers == []


def test_nobody_there_is_a_failure():
    with Sessions("127.0.0.1", {BROWSE: 1.0}, 1, port=1) as clients:
        wait_until(lambda: clients.failed, "a refusal")
    assert "refused" in clients.failed[0]


def test_each_class_is_measured_in_its_window():
    clients = Sessions("", {})
    clients.answers += [Answer("browse", at_s, 0.1 * at_s) for at_s in range(1, 11)]
    clients.answers += [Answer("bid", 5.0, 0.5), Answer("bid", 11.0, 9.0)]
    served = clients.served(1.0, 11.0)
    assert {kind: one.per_s for kind, one in served.items()} == {"": 1.1, "browse": 1.0, "bid": 0.1}
    assert (served["browse"].p50_ms, served["browse"].p95_ms) == (500.0, 1000.0)
    assert (served["bid"].p95_ms, served["bid"].deviation_ms) == (500.0, 0.0)
    assert math.isnan(served_of([], 1.0).p95_ms)


@pytest.mark.parametrize(("ratio", "found"), [(0.0, 1), (0.5, 2), (0.75, 3), (0.76, 4), (1.0, 4)])
def test_percentiles(ratio, found):
    assert percentile([1, 2, 3, 4], ratio) == found


@pytest.mark.parametrize("text", ["browse", "get /browse", "GET browse", ""])
def test_a_request_is_a_method_and_a_path(text):
    with pytest.raises(ValueError, match="write a request as"):
        Request.parse(text)
