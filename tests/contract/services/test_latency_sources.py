# SPDX-License-Identifier: Apache-2.0
"""Latency sources against the real servers that they ask, and against some that hang or lie."""

import contextlib
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import webob
import webob.dec
from oslo_config import cfg
from prometheus_client import CollectorRegistry, Gauge, generate_latest

from nova_vp.core.types.service_level import ServiceClass
from nova_vp.latency_message import Ignored, LatencyMessage, latency_text
from tests import prometheus as real_prometheus
from tests.decisions import a_guest
from tests.freezing import frozen
from tests.latency_lines import P95, SERVER, source
from tests.loopback import served
from tests.memcached import Memcached, memcached
from tests.speaking import dripping, say_nothing, speaking
from tests.waiting import wait_until
from vp_agent.latency import base, http_get
from vp_agent.latency.base import Asked, Measured, SourceError, WrongSetting
from vp_agent.latency.memcached import _ask as ask_memcached
from vp_agent.latency.poller import Poller, open_sources
from vp_agent.loop.latency_reports import LatencyReports

OTHER = "11111111-2222-4333-8444-000000000002"


@pytest.fixture(scope="module")
def cache() -> Iterator[Memcached]:
    with memcached() as one:
        yield one


# memcached


def test_a_real_memcached_tells_latency_and_the_load_of_others(cache: Memcached) -> None:
    probe = source(f"driver=memcached address={cache.address} samples=50")
    first = probe.read(P95)
    assert 0 < first.latency_ms < 2000
    assert first.load is None
    with socket.create_connection(tuple(cache.address.split(":")), 5) as link:  # type: ignore[arg-type]
        for number in range(40):
            link.sendall(b"set k%d 0 0 1\r\nx\r\n" % number)
            assert link.recv(100) == b"STORED\r\n"
    load = probe.read(P95).load
    assert load is not None
    assert load > 0
    quiet = probe.read(P95).load
    assert quiet == 0, "the probe's own requests are no load"


def test_a_memcached_that_hangs_took_as_long_as_was_waited(cache: Memcached, hasty: None) -> None:
    probe = source(f"driver=memcached address={cache.address}")
    probe.read(P95)
    with frozen(cache.pid):
        assert probe.read(P95) == Measured(300, None)
    after = probe.read(P95)
    assert after.latency_ms < 300
    assert after.load is None, "nobody knows how many requests of the probe are counted"


def test_where_no_memcached_is_there_is_no_latency() -> None:
    with memcached() as gone:
        address = gone.address
    with pytest.raises(SourceError, match="refused"):
        source(f"driver=memcached address={address}").read(P95)


def without_end(link: socket.socket) -> None:
    while True:
        link.sendall(b"x" * (1 << 16))


def counting(said: bytes) -> Callable[[socket.socket], None]:
    """Answers the one request, and then this to the question what it counted."""

    def answer(link: socket.socket) -> None:
        link.sendall(b"END\r\n")
        link.recv(100)
        link.sendall(said)

    return answer


NOT_MEMCACHED: dict[str, tuple[Callable[[socket.socket], None], str]] = {
    "closed": (lambda link: None, "no answer of memcached: b''"),
    "http": (lambda link: link.sendall(b"ERROR\r\n"), "no answer of memcached: b'ERROR"),
    "endless": (without_end, "no answer of memcached: b'xxx"),
    "no counts": (counting(b"END\r\n"), "its counts are missing"),
    "no numbers": (counting(b"STAT cmd_get many\r\nEND\r\n"), "its counts are no numbers"),
}


@pytest.mark.parametrize(("answer", "told"), NOT_MEMCACHED.values(), ids=NOT_MEMCACHED)
def test_what_is_no_memcached(
    answer: Callable[[socket.socket], None], told: str, hasty: None
) -> None:
    with speaking(answer) as address, pytest.raises(SourceError, match=told):
        source(f"driver=memcached address={address} samples=1").read(P95)


@pytest.mark.parametrize("said", [b"ERROR", b"CLIENT_ERROR bad key", b"SERVER_ERROR no memory"])
def test_errors_of_memcached_are_not_waited_out(said: bytes, hasty: None) -> None:
    def answer(link: socket.socket) -> None:
        link.sendall(said + b"\r\n")
        say_nothing(link)

    with speaking(answer) as address, pytest.raises(SourceError, match=said.decode()):
        source(f"driver=memcached address={address}").read(P95)


# HTTP


def web(status: int = 200, body: bytes = b"ok", **headers: str) -> Any:
    @webob.dec.wsgify
    def application(request: webob.Request) -> webob.Response:
        return webob.Response(status=status, body=body, headers=headers)

    return application


def test_a_real_web_server_tells_its_latency() -> None:
    with served(web()) as url:
        measured = source(f"driver=http url={url}/health?full=1 samples=5").read(P95)
    assert 0 < measured.latency_ms < 2000
    assert measured.load is None


@pytest.mark.parametrize("status", [302, 404, 503])
def test_a_web_server_that_does_not_succeed_has_no_latency(status: int) -> None:
    with served(web(status)) as url, pytest.raises(SourceError, match=f"HTTP status {status}"):
        source(f"driver=http url={url}").read(P95)


def test_where_no_web_server_is_there_is_no_latency() -> None:
    with served(web()) as url:
        pass
    with pytest.raises(SourceError, match="refused"):
        source(f"driver=http url={url}").read(P95)


HANGING: dict[str, Callable[[socket.socket], None]] = {
    "nothing": say_nothing,
    "body": dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n", b"x"),
    "header": dripping(b"HTTP/1.1 200 OK\r\nX: ", b"x"),
    "continue": dripping(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
}


@pytest.mark.parametrize("answer", HANGING.values(), ids=HANGING.keys())
def test_a_web_server_that_hangs_took_as_long_as_was_waited(
    answer: Callable[[socket.socket], None], hasty: None
) -> None:
    with speaking(answer) as address:
        assert source(f"driver=http url=http://{address}/").read(P95) == Measured(300, None)


def test_an_answer_of_single_bytes_is_not_read_to_its_end() -> None:
    """All at once, so that no wait ends it."""
    chunks = b"1\r\nx\r\n" * (base.MOST_PIECES + 1) + b"0\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    told = f"more than {base.MOST_PIECES} pieces"
    with (
        speaking(lambda link: link.sendall(head + chunks)) as address,
        pytest.raises(SourceError, match=told),
    ):
        source(f"driver=http url=http://{address}/").read(P95)


def test_a_memcached_that_answers_byte_by_byte_is_not_read_for_ever() -> None:
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # Joins no two sends.

    def answer() -> None:
        with contextlib.suppress(OSError):
            for _ in range(base.MOST_PIECES + 1):
                far.send(b"x")

    with near, far:
        threading.Thread(target=answer, daemon=True).start()
        with pytest.raises(SourceError, match="pieces"):
            ask_memcached(near, b"get it\r\n")


def test_a_connection_is_not_read_for_ever_byte_by_byte() -> None:
    near, far = socket.socketpair()
    with near, far:
        incoming, buffer = http_get._Until(near, time.monotonic() + 60.0), bytearray(100)
        for _ in range(base.MOST_PIECES):
            far.send(b"x")
            assert incoming.readinto(buffer) == 1
        far.send(b"x")
        with pytest.raises(SourceError, match="pieces"):
            incoming.readinto(buffer)


def test_one_request_without_an_answer_is_one_sample(hasty: None) -> None:
    heard: list[int] = []

    def answer(link: socket.socket) -> None:
        heard.append(1)
        if len(heard) < 5:
            link.sendall(b"HTTP/1.1 204 No Content\r\n\r\n")
        else:
            say_nothing(link)

    with speaking(answer) as address:
        probe = source(f"driver=http url=http://{address}/ samples=100")
        assert probe.read(Asked(50.0, 10.0)).latency_ms < 300
    assert len(heard) == 5


@pytest.mark.parametrize("driver", ["http url=http://", "memcached address="])
def test_a_server_that_hangs_is_not_on_a_target_that_nobody_waited_for(
    driver: str, hasty: None
) -> None:
    with speaking(say_nothing) as address:
        probe = source(f"driver={driver}{address}")
        for target_ms in (None, 300.0):
            assert probe.read(Asked(95.0, target_ms)) == Measured(300, None)
        with pytest.raises(SourceError, match="the target is 301 ms"):
            probe.read(Asked(95.0, 301.0))


def test_a_round_of_a_slow_server_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "ROUND_S", base.TIMEOUT_S)
    requests: list[int] = []
    samples = base.sampled(lambda: requests.append(1), 100)
    assert len(samples.took_ms) == len(requests) == 1
    assert not samples.is_cut


def test_an_answer_that_ends_early_has_no_latency(hasty: None) -> None:
    said = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"
    with (
        speaking(lambda link: link.sendall(said)) as address,
        pytest.raises(SourceError, match="ended 7 bytes early"),
    ):
        source(f"driver=http url=http://{address}/").read(P95)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (b"", "RemoteDisconnected"),
        (b"220 smtp\r\n", "BadStatusLine"),
        (b"HTTP/1.1 what\r\n\r\n", "BadStatusLine"),
    ],
)
def test_what_is_no_web_server(said: bytes, told: str, hasty: None) -> None:
    with (
        speaking(lambda link: link.sendall(said)) as address,
        pytest.raises(SourceError, match=told),
    ):
        source(f"driver=http url=http://{address}/").read(P95)


def test_an_answer_without_end_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_get, "MOST_BYTES", 1000)
    with served(web(body=b"x" * 100_000)) as url:
        probe = source(f"driver=http url={url}")
        with pytest.raises(SourceError, match="larger than 1000 bytes"):
            probe.read(P95)


# Prometheus


@pytest.mark.skipif(real_prometheus.BINARY is None, reason="Prometheus is not installed")
def test_a_real_prometheus_tells_what_it_scraped(tmp_path: Path) -> None:
    registry = CollectorRegistry()
    Gauge("web_p95_seconds", "", registry=registry).set(0.0085)
    requests = Gauge("web_requests_per_second", "", ["path"], registry=registry)
    requests.labels("/a").set(100)
    requests.labels("/b").set(23)
    Gauge("web_nothing_seconds", "", registry=registry).set(float("nan"))
    application = web(body=generate_latest(registry), **{"Content-Type": "text/plain"})
    with served(application) as url, real_prometheus.prometheus(tmp_path, url[7:]) as asked:
        probe = source(
            f"driver=prometheus url={asked} query=web_p95_seconds "
            "load_query='sum(web_requests_per_second)'"
        )
        wait_until(lambda: measured_by(probe) is not None, "a scrape", 30)
        assert probe.read(P95) == Measured(pytest.approx(8.5), 123.0)
        in_ms = source(f"driver=prometheus url={asked}/ query='scalar(web_p95_seconds)' unit=ms")
        assert in_ms.read(P95) == Measured(pytest.approx(0.0085), None)
        for query, why in (
            ("web_nothing_seconds", "nothing was measured lately"),
            ("web_requests_per_second", "2 series"),
            ("web_unknown_seconds", "0 series"),
            ("sum(", "HTTP status 400"),
            ("web_p95_seconds[1m]", "no answer of Prometheus"),
        ):
            with pytest.raises(SourceError, match=why):
                source(f"driver=prometheus url={asked} query='{query}'").read(P95)


def measured_by(probe: base.LatencySource) -> Measured | None:
    try:
        return probe.read(P95)
    except SourceError:
        return None


def answered(*values: Any, kind: str = "vector") -> bytes:
    rows = ",".join(f'{{"metric":{{}},"value":[1.8e9,{value}]}}' for value in values)
    return b'{"status":"success","data":{"resultType":"%s","result":[%s]}}' % (
        kind.encode(),
        rows.encode(),
    )


LIES = {
    "no JSON": b"<html>",
    "no data": b'{"status":"success"}',
    "a list": b"[]",
    "nobody": answered(),
    "two": answered('"1"', '"2"'),
    "NaN": answered('"NaN"'),
    "infinite": answered('"+Inf"'),
    "no number": answered('"soon"'),
    "null": answered("null"),
    "deep": b"[" * 100_000,
}


@pytest.mark.parametrize("body", LIES.values(), ids=LIES.keys())
def test_what_prometheus_would_not_answer(body: bytes) -> None:
    with served(web(body=body)) as url, pytest.raises(SourceError):
        source(f"driver=prometheus url={url} query=up").read(P95)


def test_an_answer_as_prometheus_gives_it() -> None:
    """Of Prometheus 2.42."""
    with served(web(body=answered('"0.0085"'))) as url:
        assert source(f"driver=prometheus url={url} query=up").read(P95).latency_ms == 8.5


def test_a_prometheus_that_hangs_has_no_latency(hasty: None) -> None:
    with speaking(say_nothing) as address:
        probe = source(f"driver=prometheus url=http://{address} query=up")
        with pytest.raises(SourceError, match="does not answer in time"):
            probe.read(P95)


# settings

WRONG = {
    "": "write server=UUID",
    "server=web driver=http url=http://a/": "badly formed",
    f"server={SERVER} url=http://a/": "write server=UUID",
    f"server={SERVER} driver=ping": "give one of http, memcached, prometheus",
    f"server={SERVER} driver=http": "url: the settings of this driver are url, samples (optional)",
    f"server={SERVER} driver=http url=http://a/ timeout=3": "timeout",
    f"server={SERVER} driver=http url=ftp://a/": "http://host:port/path",
    f"server={SERVER} driver=http url=http://": "http://host:port/path",
    f"server={SERVER} driver=http url=http://a:x/": "http://host:port/path",
    f"server={SERVER} driver=http url=http://a..b/": "http://host:port/path",
    f"server={SERVER} driver=http 'url=http://a/b c'": "as %20",
    f"server={SERVER} driver=http url=http://a/caf\u00e9": "as %20",
    f"server={SERVER} driver=http url=http://me:hidden@a/": "leave out user and password",
    f"server={SERVER} driver=http url=http://a/ samples=0": "from 1 to 1000",
    f"server={SERVER} driver=http url=http://a/ url=http://b/": "each setting once",
    f"server={SERVER} driver=http 'url": "No closing quotation",
    f"server={SERVER} driver=memcached address=a": "host:port",
    f"server={SERVER} driver=memcached address=a:99999": "host:port",
    f"server={SERVER} driver=prometheus url=http://a/": "query",
    f"server={SERVER} driver=prometheus url=http://a/ query=up unit=h": "one of s, ms",
    f"server={SERVER} driver=prometheus url=http://a/ query=": "give the query",
    f"server={SERVER} driver=prometheus url=http://a/?orgId=1 query=up": "without what follows ?",
}


@pytest.mark.parametrize(("line", "said"), WRONG.items())
def test_a_wrong_line_is_told_with_what_to_write(line: str, said: str) -> None:
    with pytest.raises(cfg.Error, match=r"\[agent\] latency_sources: ") as refused:
        open_sources([line])
    assert said in str(refused.value)


def test_a_password_in_a_line_is_printed_nowhere() -> None:
    with pytest.raises(cfg.Error) as refused:
        open_sources([f"server={SERVER} driver=http url=http://me:hidden@a/"])
    assert "hidden" not in str(refused.value)


def test_a_server_has_one_source() -> None:
    line = f"server={SERVER} driver=http url=http://a/"
    with pytest.raises(cfg.Error, match="another line of this server"):
        open_sources(
            [
                line,
                line.upper()
                .replace("SERVER", "server")
                .replace("DRIVER", "driver")
                .replace("URL", "url")
                .replace("HTTP", "http"),
            ]
        )


def test_percentiles_are_nearest_ranks() -> None:
    hundred = [float(n) for n in range(100, 0, -1)]
    assert base.percentile_of(hundred, 95.0) == 95.0
    assert base.percentile_of(hundred, 99.9) == 100.0
    assert base.percentile_of([3.0], 50.0) == 3.0


def test_wrong_settings_name_what_there_is() -> None:
    with pytest.raises(WrongSetting, match="a, b \\(optional\\)"):
        base.settings_of({"c": "1"}, ["a"], {"b": "2"})


# the poller


class Scripted:
    """A source that does as it is told."""

    def __init__(self, act: Callable[[], Any]) -> None:
        self.rounds = 0
        self._act = act

    def read(self, asked: Asked) -> Any:
        self.rounds += 1
        return self._act()


def hang() -> None:
    threading.Event().wait()


def fail() -> None:
    raise RuntimeError("a driver\nof others")


LYING: dict[str, Callable[[], Any]] = {
    "raises": fail,
    "nothing": lambda: None,
    "a text": lambda: ("8.5", None),
    "NaN": lambda: (float("nan"), None),
    "negative": lambda: (-1.0, None),
    "zero": lambda: (0.0, None),
    "endless": lambda: (float("inf"), None),
    "an absurd load": lambda: (8.5, -3),
    "three": lambda: (1, 2, 3),
}


@contextlib.contextmanager
def polling(reports: LatencyReports, **sources: Any) -> Iterator[None]:
    poller = Poller({name.replace("_", "-"): one for name, one in sources.items()}, reports, 0.01)
    poller.start()
    try:
        yield
    finally:
        poller.close()


def reports_here(*uuids: str) -> tuple[LatencyReports, Callable[[], dict[str, Any]]]:
    reports = LatencyReports()
    critical = {"service_class": ServiceClass.LATENCY_CRITICAL, "project_id": "p1"}
    guests = tuple(a_guest(uuid=uuid, **critical) for uuid in uuids)

    def known() -> dict[str, Any]:
        return dict(reports.of(guests, reports._monotonic()))

    known()
    return reports, known


@pytest.mark.parametrize("act", LYING.values(), ids=LYING.keys())
def test_a_source_that_lies_is_not_believed_and_told_once(
    act: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    reports, known = reports_here(SERVER)
    lying = Scripted(act)
    with polling(reports, **{SERVER: lying}):
        wait_until(lambda: lying.rounds > 3, "some rounds")
    assert known() == {}
    [line] = caplog.records
    assert "latency source failed" in line.getMessage()
    assert "\n" not in line.getMessage()


def test_a_source_that_hangs_costs_its_own_server_alone() -> None:
    reports, known = reports_here(SERVER, OTHER)
    with polling(reports, **{SERVER: Scripted(hang), OTHER: Scripted(lambda: Measured(8.5, 3.0))}):
        wait_until(lambda: OTHER in known(), "the other source")
        assert known()[OTHER][:2] == (8.5, 3.0)
        assert SERVER not in known()


def test_nobody_asks_of_a_server_that_is_elsewhere_or_of_no_class() -> None:
    reports, _ = reports_here(OTHER)
    idle, busy = Scripted(lambda: Measured(8.5, None)), Scripted(lambda: Measured(1.0, None))
    with polling(reports, **{SERVER: idle, OTHER: busy}):
        wait_until(lambda: busy.rounds > 3, "some rounds of the other")
    assert idle.rounds == 0


def test_a_source_is_asked_for_the_percentile_and_target_of_its_server() -> None:
    reports = LatencyReports()
    guest = a_guest(uuid=SERVER, service_class=ServiceClass.LATENCY_CRITICAL)
    asked: list[Asked] = []

    class Listening:
        def read(self, one: Asked) -> Measured:
            asked.append(one)
            return Measured(8.5, None)

    with polling(reports, **{SERVER: Listening()}):
        for target_ms in (10.0, 25.0):
            now = guest._replace(latency_target_ms=target_ms, latency_percentile=90.0)
            wanted = Asked(90.0, target_ms)
            wait_until(lambda now=now: reports.of((now,), 0.0) != {}, "a report")
            wait_until(lambda wanted=wanted: wanted in asked, "a round")


def test_another_target_forgets_no_report() -> None:
    reports = LatencyReports()
    guest = a_guest(uuid=SERVER, service_class=ServiceClass.LATENCY_CRITICAL)
    reports.of((guest,), reports._monotonic())
    assert reports.offer(SERVER, 8.5, None)
    now = guest._replace(latency_target_ms=25.0)
    assert reports.of((now,), reports._monotonic())[SERVER].latency_ms == 8.5


def test_where_the_operator_measures_the_application_is_not_believed() -> None:
    reports, known = reports_here(SERVER)
    with polling(reports, **{SERVER: Scripted(lambda: Measured(8.5, None))}):
        wait_until(lambda: SERVER in known(), "a report")
        now_ms = round(reports._clock() * 1000)
        told = latency_text(LatencyMessage(SERVER, "p1", 900.0, None, None, now_ms, now_ms))
        assert reports.take(told) is Ignored.MEASURED
        assert known()[SERVER].latency_ms == 8.5


def test_a_source_that_is_well_again_is_told(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    reports, known = reports_here(SERVER)
    answers: list[Any] = [fail, fail]
    well = Scripted(lambda: (answers.pop() if answers else lambda: Measured(8.5, None))())
    with polling(reports, **{SERVER: well}):
        wait_until(lambda: SERVER in known(), "a report")
        wait_until(lambda: len(caplog.records) > 1, "a line about it")
    assert [one.levelname for one in caplog.records] == ["WARNING", "INFO"]
