# SPDX-License-Identifier: Apache-2.0
"""The socket for monitors on the host: many calls on one connection, one line each way."""

import json
import os
import socket
import stat
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest

from nova_vp.core.types.overlay import Call, CallAnswer, CallResource, Direction, Nack, Verb
from tests.waiting import wait_until
from vp_agent.loop import overlay_socket
from vp_agent.loop.monitor_calls import MonitorCall
from vp_agent.loop.overlay_socket import (
    FILE,
    MAX_LINE_BYTES,
    MOST_CONNECTIONS,
    MOST_OF_ONE,
    OverlaySocket,
)

SHOP = "00000000-0000-4000-8000-00000000000a"
VM = "00000000-0000-4000-8000-000000000001"


class Client:
    def __init__(self, folder: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(str(folder / FILE))  # With a timeout it would not wait for its turn.
        self.socket.settimeout(10)
        self.file = self.socket.makefile("rb")

    def say(self, line: bytes) -> dict:
        self.socket.sendall(line)
        return json.loads(self.file.readline())

    def call(self, **told: object) -> dict:
        return self.say(json.dumps(told).encode() + b"\n")

    def close(self) -> None:
        self.file.close()
        self.socket.close()


@pytest.fixture
def asked() -> list[MonitorCall]:
    return []


@pytest.fixture
def folder(tmp_path, asked):
    def answer(monitor: MonitorCall) -> CallAnswer:
        asked.append(monitor)
        nack = Nack.NO_CREDIT if monitor.call.verb is Verb.TRIGGER else None
        return CallAnswer(monitor.call.id, nack, "its weight was raised", 300.0)

    server = OverlaySocket(tmp_path, answer)
    yield tmp_path
    server.close()
    assert not (tmp_path / FILE).exists()


@pytest.fixture
def client(folder):
    client = Client(folder)
    yield client
    client.close()


def test_a_call_says_what_it_means_and_gets_its_answer(client, asked):
    told = {
        "id": "7",
        "overlay_id": SHOP,
        "verb": "tune",
        "server_id": VM,
        "resource": "memory-size",
    }
    answer = client.call(**told, direction="down", lease_s=20)
    assert answer == {"id": "7", "nack": None, "detail": "its weight was raised", "lease_s": 300.0}
    memory = CallResource.MEMORY_SIZE
    call = Call("7", SHOP, Verb.TUNE, memory, Direction.DOWN, VM, lease_s=20)
    assert asked == [MonitorCall(call, is_everywhere=False)]


def test_a_call_may_be_for_all_hosts(client, asked):
    for everywhere in (True, False):
        client.call(overlay_id=SHOP, verb="trigger", everywhere=everywhere)
    assert [one.is_everywhere for one in asked] == [True, False]


def test_many_calls_go_over_one_connection_in_order(client, asked):
    for number in range(50):
        assert client.call(id=str(number), overlay_id=SHOP, verb="release")["id"] == str(number)
    assert [one.call.id for one in asked] == [str(number) for number in range(50)]


def test_a_refusal_is_an_answer_with_its_reason(client):
    assert client.call(overlay_id=SHOP, verb="trigger")["nack"] == "no-credit"


def test_calls_without_an_id_are_different_calls(client):
    first, second = (client.call(overlay_id=SHOP, verb="release")["id"] for _ in range(2))
    assert first != second


@pytest.mark.parametrize(
    "line",
    [
        b"\n",
        b"hello\n",
        b"[]\n",
        b"{}\n",
        b'{"overlay_id": 5, "verb": "tune"}\n',
        json.dumps({"overlay_id": SHOP, "verb": "steal"}).encode() + b"\n",
        json.dumps({"overlay_id": SHOP, "verb": "tune"}).encode() + b"\n",
        json.dumps({"overlay_id": SHOP, "verb": "release", "whose": "mine"}).encode() + b"\n",
        json.dumps({"overlay_id": SHOP, "verb": "borrow", "server_id": VM, "cpus": -1}).encode()
        + b"\n",
        json.dumps({"overlay_id": SHOP, "verb": "trigger", "everywhere": 1}).encode() + b"\n",
        json.dumps(
            {"overlay_id": SHOP, "verb": "trigger", "server_id": VM, "everywhere": True}
        ).encode()
        + b"\n",
        b"[" * 3000 + b"\n",
    ],
)
def test_what_is_no_call_is_an_error_and_the_connection_goes_on(client, asked, line):
    assert client.say(line).keys() == {"error"}
    assert asked == []
    assert client.call(overlay_id=SHOP, verb="release")["nack"] is None


RELEASE = {"overlay_id": SHOP, "verb": "release"}
TUNE = {"overlay_id": SHOP, "verb": "tune", "server_id": VM}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ({"verb": "release"}, "overlay_id: give the id of an overlay"),
        ({"overlay_id": "shop", "verb": "release"}, "overlay_id: give the id of an overlay"),
        ({"overlay_id": SHOP}, "verb: give tune, trigger, borrow, release, renew"),
        ({**RELEASE, "verb": "steal"}, "verb: give tune"),
        ({**TUNE, "server_id": "web"}, "server_id: give the id of a server"),
        ({**TUNE, "server_id": None}, "tune: name one server (server_id)"),
        ({**TUNE, "direction": "more"}, "direction: give up, down"),
        ({**TUNE, "resource": "memory"}, "resource: give cpu, memory-size, io"),
        ({**TUNE, "verb": "borrow", "cpus": "1"}, "cpus: give a whole number"),
        ({**TUNE, "verb": "borrow"}, "borrow: give cpus"),
        ({**RELEASE, "verb": "trigger", "lease_s": "5"}, "lease_s: give seconds"),
        ({**RELEASE, "verb": "trigger", "lease_s": 0}, "lease_s: give seconds"),
        ({**RELEASE, "lease_s": float("nan")}, "write a call as JSON in one line: NaN is not"),
        ({**RELEASE, "id": "", "verb": 5}, "verb: give tune"),
        ({**RELEASE, "id": "a b"}, "id: give up to 64 letters"),
        ({**RELEASE, "server": VM}, "no field server: a call has id, overlay_id"),
        ([RELEASE], "a call is a JSON object"),
    ],
)
def test_an_error_says_which_field_is_wrong_and_what_it_takes(client, call, words):
    assert client.say(json.dumps(call).encode() + b"\n")["error"].startswith(words)


def test_a_number_without_bounds_is_refused_by_its_field(client):
    line = b'{"overlay_id": "%s", "verb": "release", "lease_s": 1e999}\n' % SHOP.encode()
    assert client.say(line)["error"].startswith("lease_s: give seconds")


def test_null_is_as_good_as_nothing(client, asked):
    fields = ("id", "resource", "direction", "server_id", "cpus", "island", "lease_s", "everywhere")
    assert client.call(**RELEASE, **dict.fromkeys(fields))["nack"] is None
    assert asked[0].call.resource is CallResource.CPU


def test_the_example_of_the_page_is_served(folder, asked):
    page = Path(__file__).parents[2] / "doc/source/overlays.md"
    code = page.read_text().split("## From the host")[1].split("```python\n")[1].split("```")[0]
    example: dict[str, Any] = {}
    exec(compile(code, str(page), "exec"), example)
    assert example["prepare"](str(folder / FILE))["nack"] is None
    calls = [one.call for one in asked]
    assert [(call.verb, call.guest_uuid) for call in calls] == [(Verb.TUNE, example["DATABASE"])]


def test_a_line_that_is_too_long_ends_the_connection(client):
    assert "error" in client.say(b"x" * (MAX_LINE_BYTES + 1))
    assert client.file.read() == b""


def test_blanks_do_not_make_a_call_that_is_too_long_one(client, asked):
    call = json.dumps({"overlay_id": SHOP, "verb": "release"}).encode()
    assert "error" in client.say(call + b" " * MAX_LINE_BYTES + b"\n")
    assert asked == []


def connected(folder: Path, stack: ExitStack) -> Client:
    """A monitor that is served, for as long as the stack."""
    client = Client(folder)
    stack.callback(client.close)
    assert client.call(overlay_id=SHOP, verb="release")["nack"] is None
    return client


def test_only_so_many_monitors_are_served(folder, monkeypatch):
    monkeypatch.setattr(overlay_socket, "MOST_OF_ONE", MOST_CONNECTIONS + 1)
    with ExitStack() as stack:
        for _ in range(MOST_CONNECTIONS):
            connected(folder, stack)
        one_more = Client(folder)
        stack.callback(one_more.close)
        assert "connected already" in json.loads(one_more.file.readline())["error"]


FROM_ELSEWHERE = """\
import socket, sys
one = socket.socket(socket.AF_UNIX)
one.connect(sys.argv[1])
one.sendall(sys.argv[2].encode() + b"\\n")
print(one.makefile().readline())
"""


def test_one_process_leaves_room_for_others(folder):
    with ExitStack() as stack:
        for _ in range(MOST_OF_ONE):
            connected(folder, stack)
        one_more = Client(folder)
        stack.callback(one_more.close)
        assert f"of process {os.getpid()}" in json.loads(one_more.file.readline())["error"]
        call = json.dumps({"overlay_id": SHOP, "verb": "release"})
        command = [sys.executable, "-c", FROM_ELSEWHERE, str(folder / FILE), call]
        told = subprocess.run(command, check=True, capture_output=True, timeout=60).stdout
        assert json.loads(told)["nack"] is None


def test_many_connections_that_say_nothing_end_with_whoever_made_them(folder):
    with ExitStack() as stack:
        served = connected(folder, stack)
        with ExitStack() as crowd:
            for _ in range(300):
                crowd.callback(Client(folder).close)
            assert served.call(overlay_id=SHOP, verb="release")["nack"] is None
        wait_until(lambda: is_served(folder), "there is room again")


def is_served(folder: Path) -> bool:
    client = Client(folder)
    try:
        return "nack" in client.call(overlay_id=SHOP, verb="release")
    except OSError:  # It is hung up on before it has called.
        return False
    finally:
        client.close()


@pytest.mark.parametrize("begun", [b'{"overlay_id"', b"\xff"])
def test_half_a_line_and_silence_is_hung_up_on(client, asked, monkeypatch, begun):
    monkeypatch.setattr(overlay_socket, "BEGUN_S", 0.05)
    assert client.say(begun) == {"error": "no end of line within 0.05 s"}
    assert client.file.read() == b""
    assert asked == []


def test_a_line_in_drops_takes_no_longer_than_one_at_once(client, monkeypatch):
    """Each of them alone would be in time."""
    monkeypatch.setattr(overlay_socket, "BEGUN_S", 0.3)
    client.socket.settimeout(0.01)
    told = b""
    for _ in range(MAX_LINE_BYTES // 2):
        with suppress(BrokenPipeError):
            client.socket.sendall(b" ")
        with suppress(TimeoutError):
            told = client.socket.recv(MAX_LINE_BYTES)
            break
    assert json.loads(told) == {"error": "no end of line within 0.3 s"}


def test_whoever_is_quiet_between_two_calls_stays(client, monkeypatch):
    monkeypatch.setattr(overlay_socket, "BEGUN_S", 0.05)
    release = {"overlay_id": SHOP, "verb": "release"}
    assert client.call(**release)["nack"] is None
    client.socket.settimeout(0.2)
    with pytest.raises(TimeoutError):
        client.socket.recv(1)
    client.socket.settimeout(10)
    client.socket.sendall(json.dumps(release).encode() + b"\n")
    assert json.loads(client.socket.recv(MAX_LINE_BYTES))["nack"] is None


def test_whoever_reads_no_answers_is_hung_up_on(client, asked, monkeypatch):
    monkeypatch.setattr(overlay_socket, "BEGUN_S", 0.05)
    line = json.dumps({"overlay_id": SHOP, "verb": "release"}).encode() + b"\n"
    client.socket.settimeout(10)

    def flood() -> None:
        while True:
            client.socket.sendall(line * 100)

    with pytest.raises((BrokenPipeError, ConnectionResetError)):
        flood()
    assert asked


def test_calls_that_arrive_together_are_all_answered(client, asked):
    line = json.dumps({"overlay_id": SHOP, "verb": "release"}).encode()
    client.socket.sendall(line + b"\n" + line + b"\n" + line[:10])
    assert [json.loads(client.file.readline())["nack"] for _ in range(2)] == [None, None]
    assert client.say(line[10:] + b"\n")["nack"] is None
    assert len(asked) == 3


def test_it_is_for_root_the_agents_user_and_its_group_alone(folder):
    about = os.stat(folder / FILE)
    assert stat.S_IMODE(about.st_mode) == 0o660
    assert (about.st_uid, about.st_gid) == (os.geteuid(), os.getegid())
