# SPDX-License-Identifier: Apache-2.0
"""Requests and streams as the taps of servers see them, on real taps and a real bridge; and the
monitors that tune servers by their classes."""

import random
import socket
import struct
from collections.abc import Iterator

import pytest

from nova_vp.core.types.overlay import CallAnswer, Overlay
from tests.tap_network import BRIDGE, Tap, missing_for_taps, own_network
from tests.waiting import wait_until
from vp_agent.drivers.nics import Nic
from vp_agent.drivers.request_capture import LINE_BYTES, RequestCapture
from vp_agent.drivers.stream_counter import StreamCounter
from vp_agent.loop.monitor_calls import MonitorCall
from vp_agent.monitors.runner import Monitors, open_monitors

WEB, APP, DB = (f"00000000-0000-4000-8000-00000000000{n}" for n in "123")
SHOP = Overlay("00000000-0000-4000-8000-00000000000a", "shop", "p", frozenset({WEB, APP, DB}))
HTTP, RTP = 80, 5004
TCP, UDP = 6, 17
BROWSE, BID = b"GET /item/1 HTTP/1.1\r\nHost: shop\r\n\r\n", b"POST /bid HTTP/1.1\r\n\r\n"
LINE = (
    f"request-classes server={WEB} memory_s=0.000001"
    f" 'class.browse=GET /(item|search)' servers.browse={WEB},{APP}"
    f" 'class.bid=POST /bid' servers.bid={APP},{DB}"
)


@pytest.fixture(autouse=True)
def network() -> Iterator[None]:
    if missing := missing_for_taps():
        pytest.skip(missing)
    with own_network():
        yield


@pytest.fixture
def tap() -> Iterator[Tap]:
    made = Tap("tap-web", 2)
    yield made
    made.close()


@pytest.fixture
def capture(tap) -> Iterator[RequestCapture]:
    opened = RequestCapture(tap.device, HTTP)
    yield opened
    opened.close()


@pytest.fixture
def stream(tap) -> Iterator[StreamCounter]:
    opened = StreamCounter(tap.device, RTP, 0.0)
    yield opened
    opened.close()


def tcp(data: bytes, port: int = HTTP, options: bytes = b"") -> bytes:
    length = (20 + len(options)) // 4
    return struct.pack("!HHIIBBHHH", 40000, port, 1, 1, length << 4, 0x18, 1, 0, 0) + options + data


def udp(data: bytes, port: int = RTP) -> bytes:
    return struct.pack("!HHHH", 40000, port, 8 + len(data), 0) + data


def ipv4(packet: bytes, protocol: int = TCP, options: bytes = b"", fragment: int = 0) -> bytes:
    first = 0x40 | (20 + len(options)) // 4
    fields = (first, 0, 20 + len(options) + len(packet), 1, fragment, 64, protocol, 0)
    addresses = socket.inet_aton("10.9.0.9") + socket.inet_aton("10.9.0.2")
    return b"\x08\x00" + struct.pack("!BBHHHBBH", *fields) + addresses + options + packet


def ipv6(packet: bytes, protocol: int = TCP) -> bytes:
    return (
        b"\x86\xdd" + struct.pack("!IHBB", 6 << 28, len(packet), protocol, 64) + bytes(32) + packet
    )


def send(tap: Tap, *packets: bytes) -> None:
    """Over the bridge."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as sender:
        sender.bind((BRIDGE, 0))
        header = bytes.fromhex(tap.mac.replace(":", "") + "020000000009")
        for packet in packets:
            sender.send((header + packet).ljust(60, b"\0"))


SEEN = {
    "over IPv4": ipv4(tcp(BROWSE)),
    "over IPv6": ipv6(tcp(BROWSE)),
    "with options of TCP": ipv4(tcp(BROWSE, options=bytes(12))),
    "with options of IP": ipv4(tcp(BROWSE), options=bytes(8)),
}
NOT_SEEN = {
    "another port": ipv4(tcp(BROWSE, port=81)),
    "no data": ipv4(tcp(b"")),
    "another protocol": ipv4(tcp(BROWSE), protocol=UDP),
    "another protocol over IPv6": ipv6(tcp(BROWSE), protocol=UDP),
    "the rest of a request": ipv4(tcp(b"x=1&y=2")),
    "a later fragment": ipv4(tcp(BROWSE), fragment=100),
    "no IP": b"\x08\x06" + ipv4(tcp(BROWSE))[2:],
    "cut in its header": ipv4(tcp(BROWSE)[:10]),
}


@pytest.mark.parametrize("packet", SEEN.values(), ids=SEEN)
def test_the_first_line_of_a_request_is_seen(tap, capture, packet):
    send(tap, packet)
    assert list(capture.lines()) == ["GET /item/1 HTTP/1.1"]
    assert list(capture.lines()) == []


@pytest.mark.parametrize("packet", NOT_SEEN.values(), ids=NOT_SEEN)
def test_nothing_else_is(tap, capture, packet):
    send(tap, packet)
    assert list(capture.lines()) == []


@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "HEAD", "DELETE", "PATCH", "OPTIONS"])
def test_every_method_is_seen(tap, capture, method):
    send(tap, ipv4(tcp(f"{method} / HTTP/1.1\r\n\r\n".encode())))
    assert list(capture.lines()) == [f"{method} / HTTP/1.1"]


def test_what_the_server_asks_itself_is_not_seen(tap, capture):
    tap.write(bytes.fromhex("02000000000a020000000002") + ipv4(tcp(BROWSE)))
    assert list(capture.lines()) == []


def test_a_long_line_is_cut(tap, capture):
    send(tap, ipv4(tcp(b"GET /" + b"x" * 1000), options=bytes(40)))
    [line] = capture.lines()
    assert len(line) == LINE_BYTES


def test_a_flood_costs_no_more_than_the_buffer(tap, capture):
    send(tap, *[ipv4(tcp(BROWSE))] * 3000)
    assert 0 < len(list(capture.lines())) < 1000
    tap.read(3000)
    send(tap, ipv4(tcp(BID)))
    assert list(capture.lines()) == ["POST /bid HTTP/1.1"]


def test_no_content_is_a_fault(tap, capture):
    dice = random.Random(1)
    heads = (b"\x08\x00", b"\x86\xdd")
    packets = [dice.choice(heads) + dice.randbytes(dice.randrange(200)) for _ in range(300)]
    ports = [bytearray(ipv4(tcp(BROWSE + dice.randbytes(20)))) for _ in range(300)]
    for packet in ports:
        packet[dice.randrange(2, len(packet))] = dice.randrange(256)
    send(tap, *packets, *map(bytes, ports))
    assert all(isinstance(line, str) for line in capture.lines())


class Host:
    def __init__(self, line: str) -> None:
        self.nics = {WEB: (Nic("bridge", "tap-web"),)}
        self.calls: list[tuple[str, str, str]] = []
        opened = open_monitors([line])
        [(_, self.monitor)] = opened
        self._monitors = Monitors(
            opened, lambda: {SHOP.id: SHOP}, lambda: self.nics, lambda: None, self._answer
        )

    def _answer(self, asked: MonitorCall) -> CallAnswer:
        call = asked.call
        self.calls.append((call.verb.value, call.guest_uuid, call.direction.value))
        return CallAnswer(call.id, None)

    def look(self) -> list[tuple[str, str, str]]:
        """The calls that follow."""
        self.calls = []
        self._monitors.look(self.monitor)
        return self.calls


def test_the_servers_that_frequent_requests_do_not_need_are_lowered(tap):
    host = Host(LINE + " steps_down=1")
    assert host.look() == []
    send(tap, *[ipv4(tcp(BROWSE))] * 9, ipv4(tcp(BID)))
    assert host.look() == [("tune", DB, "down")]
    send(tap, *[ipv4(tcp(BID))] * 9, ipv4(tcp(BROWSE)))
    assert host.look() == [("tune", WEB, "down"), ("tune", DB, "up")]
    host.monitor.close()


def test_requests_of_no_class_change_nothing(tap):
    host = Host(LINE)
    host.look()
    send(tap, *[ipv4(tcp(b"GET /health HTTP/1.1\r\n\r\n"))] * 9)
    assert host.look() == []
    host.monitor.close()


def test_what_was_seen_is_forgotten_with_the_server(tap):
    host = Host(LINE + " steps_down=1")
    host.look()
    send(tap, *[ipv4(tcp(BROWSE))] * 9)
    assert host.look() == [("tune", DB, "down")]
    send(tap, *[ipv4(tcp(BROWSE))] * 9)
    nics, host.nics = host.nics, {}
    assert host.look() == []
    host.nics = nics
    assert host.look() == []
    send(tap, *[ipv4(tcp(BROWSE))] * 9)
    assert host.look() == [("tune", DB, "down")], "what was granted before has ended"
    host.monitor.close()


def frame(packets: int, length: int = 1000) -> list[bytes]:
    """The last packet of a frame has the marker bit."""
    rtp = [bytes((0x80, 96)) + bytes(length - 2)] * (packets - 1)
    return [ipv4(udp(one), UDP) for one in (*rtp, bytes((0x80, 0x80 | 96)) + bytes(length - 2))]


def test_frames_and_bits_of_a_stream_are_counted(tap, stream):
    stream.read(0.0)
    for _ in range(50):
        send(tap, *frame(3))
    rate = stream.read(2.0)
    assert rate.fps == 25.0
    assert rate.kbit_s == pytest.approx(150 * (1000 + 42) * 8 / 1000 / 2)
    assert stream.read(3.0) == (0.0, 0.0)


def test_other_packets_are_no_stream(tap, stream):
    stream.read(0.0)
    no_rtp = bytes((0x00, 0x80)) + bytes(100)
    send(tap, ipv4(udp(no_rtp), UDP), ipv4(udp(frame(1)[0], port=5006), UDP))
    assert stream.read(1.0) == (0.0, 0.0)


def test_a_fast_stream_raises_its_server_and_its_end_takes_that_back(tap):
    host = Host("stream-classes fast_kbit_s=1 fast_fps=1")
    host.look()
    send(tap, *frame(3) * 50)
    assert host.look() == [("tune", WEB, "up")]
    assert wait_until(host.look, "its end is seen") == [("tune", WEB, "down")]
    host.monitor.close()
