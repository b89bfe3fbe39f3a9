# SPDX-License-Identifier: Apache-2.0
"""The socket for monitors on the host: many calls on one connection, one line each way."""

import json
import os
import socket
import stat
from contextlib import ExitStack
from pathlib import Path

import pytest

from nova_vp.core.types.overlay import Call, CallAnswer, CallResource, Direction, Nack, Verb
from vp_agent.loop.overlay_socket import FILE, MAX_LINE_BYTES, MOST_CONNECTIONS, OverlaySocket

SHOP = "00000000-0000-4000-8000-00000000000a"
VM = "00000000-0000-4000-8000-000000000001"


class Client:
    def __init__(self, folder: Path) -> None:
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(10)
        self.socket.connect(str(folder / FILE))
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
def asked() -> list[Call]:
    return []


@pytest.fixture
def folder(tmp_path, asked):
    def answer(call: Call) -> CallAnswer:
        asked.append(call)
        nack = Nack.NO_CREDIT if call.verb is Verb.TRIGGER else None
        return CallAnswer(call.id, nack, "its weight was raised", 300.0)

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
    assert asked == [Call("7", SHOP, Verb.TUNE, memory, Direction.DOWN, VM, lease_s=20)]


def test_many_calls_go_over_one_connection_in_order(client, asked):
    for number in range(50):
        assert client.call(id=str(number), overlay_id=SHOP, verb="release")["id"] == str(number)
    assert [call.id for call in asked] == [str(number) for number in range(50)]


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
        b"[" * 3000 + b"\n",
    ],
)
def test_what_is_no_call_is_an_error_and_the_connection_goes_on(client, asked, line):
    assert client.say(line).keys() == {"error"}
    assert asked == []
    assert client.call(overlay_id=SHOP, verb="release")["nack"] is None


def test_a_line_that_is_too_long_ends_the_connection(client):
    assert "error" in client.say(b"x" * (MAX_LINE_BYTES + 1))
    assert client.file.read() == b""


def test_only_so_many_monitors_are_served(folder):
    with ExitStack() as stack:
        clients = []
        for _ in range(MOST_CONNECTIONS):
            clients.append(Client(folder))
            stack.callback(clients[-1].close)
            assert clients[-1].call(overlay_id=SHOP, verb="release")["nack"] is None
        one_more = Client(folder)
        stack.callback(one_more.close)
        assert "connected already" in json.loads(one_more.file.readline())["error"]


def test_it_is_for_root_the_agents_user_and_its_group_alone(folder):
    about = os.stat(folder / FILE)
    assert stat.S_IMODE(about.st_mode) == 0o660
    assert (about.st_uid, about.st_gid) == (os.geteuid(), os.getegid())
