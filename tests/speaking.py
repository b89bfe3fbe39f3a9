# SPDX-License-Identifier: Apache-2.0
"""Servers on the loopback that say a fixed thing, or hang, for tests of those who ask them."""

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def speaking(
    answer: Callable[[socket.socket], None], is_first_to_listen: bool = True
) -> Iterator[str]:
    """The address of one that speaks to whoever connects, by default once it heard something."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    link, _ = listener.accept()
                    with link, contextlib.suppress(OSError):
                        if is_first_to_listen:
                            link.recv(100)
                        answer(link)

        threading.Thread(target=serve, daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def dripping(begun: bytes, word: bytes) -> Callable[[socket.socket], None]:
    """Says one thing, and then another one again and again, each in time."""

    def answer(link: socket.socket) -> None:
        link.sendall(begun)
        while True:
            link.sendall(word)
            link.settimeout(0.05)
            with contextlib.suppress(TimeoutError):
                if not link.recv(1):
                    return

    return answer


def say_nothing(link: socket.socket) -> None:
    while link.recv(4096):
        pass
