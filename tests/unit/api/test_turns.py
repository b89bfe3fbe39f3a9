# SPDX-License-Identifier: Apache-2.0
"""How many requests a process of vp-api works at: who reads takes turns, who waits for an agent
does not.
"""

import threading
from concurrent.futures import ThreadPoolExecutor

import webob

from tests.unit.api import cloud
from tests.unit.api.client import Api, Persona
from vp_api.dispatch import READERS, Dispatcher
from vp_api.operation import NOTHING, Operation
from vp_api.services import TELLERS
from vp_api.testing import MemoryAgents
from vp_api.versions import Negotiate

DEADLINE_S = 30


class Silent(MemoryAgents):
    """Takes no overrides until it shall."""

    def __init__(self):
        super().__init__()
        self.asked = threading.Semaphore(0)
        self.shall_answer = threading.Event()

    def set_overrides(self, host, text):
        self.asked.release()
        assert self.shall_answer.wait(DEADLINE_S)
        return super().set_overrides(host, text)


class Counted:
    """A handler that knows how many are in it, and returns once READERS are."""

    def __init__(self):
        self.most = 0
        self._inside = 0
        self._lock = threading.Lock()
        self._together = threading.Barrier(READERS, timeout=DEADLINE_S)

    def __call__(self, call):
        with self._lock:
            self._inside += 1
            self.most = max(self.most, self._inside)
        self._together.wait()
        with self._lock:
            self._inside -= 1
        return {}


def application(**handlers):
    table = {"/": {name: Operation(handler, "", NOTHING) for name, handler in handlers.items()}}
    return Negotiate(Dispatcher(None, table))


def ask(asked, method="GET"):
    return webob.Request.blank("/", method=method).get_response(asked).status_int


def test_as_many_read_at_a_time_as_have_a_turn():
    read = Counted()
    asked = application(GET=read)
    with ThreadPoolExecutor(4 * READERS) as pool:
        assert set(pool.map(ask, [asked] * 8 * READERS)) == {200}
    assert read.most == READERS


def test_who_tells_an_agent_something_waits_for_no_reader():
    is_told = threading.Event()
    reading = threading.Semaphore(0)

    def read(call):
        reading.release()
        assert is_told.wait(DEADLINE_S)
        return {}

    def tell(call):
        is_told.set()
        return {}

    asked = application(GET=read, POST=tell)
    with ThreadPoolExecutor(READERS) as pool:
        readers = [pool.submit(ask, asked) for _ in range(READERS)]
        assert all(reading.acquire(timeout=DEADLINE_S) for _ in readers)
        assert ask(asked, "POST") == 200
        assert [reader.result() for reader in readers] == [200] * READERS


def test_tenants_of_silent_hosts_leave_threads_to_others():
    agents = Silent()
    api = Api(agents=agents)

    def opt_out():
        path = f"/v1/vps/{cloud.VICTIM}"
        return api.latest(Persona("member"), path, "PATCH", {"opt_out": True}).json["vp"]

    with ThreadPoolExecutor(TELLERS) as pool:
        waiting = []
        for _ in range(TELLERS):
            waiting.append(pool.submit(opt_out))
            assert agents.asked.acquire(timeout=DEADLINE_S)
        one_more = opt_out()
        assert (one_more["overrides"]["opt_out"], one_more["is_told"]) == (True, False)
        agents.shall_answer.set()
        assert [told.result()["is_told"] for told in waiting] == [True] * TELLERS
    assert opt_out()["is_told"] is True
