# SPDX-License-Identifier: Apache-2.0
"""Threads of socket servers: they sleep, and end at once."""

import socketserver
import threading

import pytest

from nova_vp.service import listening

DEADLINE_S = 20.0


class _Nobody(socketserver.BaseRequestHandler):
    pass


@pytest.mark.parametrize("kind", [socketserver.TCPServer, socketserver.UnixStreamServer])
def test_a_server_that_nobody_asks_is_woken_to_end(kind, tmp_path):
    assert listening._LOOKS_EVERY_S > DEADLINE_S, "else it would end without being woken"
    address = ("127.0.0.1", 0) if kind is socketserver.TCPServer else str(tmp_path / "socket")
    server = kind(address, _Nobody)
    listening.serve(server, "asked-by-nobody")
    (thread,) = (one for one in threading.enumerate() if one.name == "asked-by-nobody")
    ending = threading.Thread(target=listening.stop, args=(server,), daemon=True)
    ending.start()
    ending.join(DEADLINE_S)
    thread.join(DEADLINE_S)
    assert not ending.is_alive()
    assert not thread.is_alive()
