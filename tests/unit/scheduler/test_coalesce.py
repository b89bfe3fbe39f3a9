# SPDX-License-Identifier: Apache-2.0
"""Work that is asked for: many who ask at once get one answer, and who asks during it another."""

import threading
from collections.abc import Iterator

import pytest

from tests.waiting import wait_until
from vp_scheduler.ingest import coalesce
from vp_scheduler.ingest.coalesce import Coalescer


class Work:
    def __init__(self) -> None:
        self.done: list[bool] = []
        self.open = threading.Event()
        self.open.set()

    def __call__(self, is_asked: bool) -> None:
        self.done.append(is_asked)
        self.open.wait(10)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coalesce, "GATHER_S", 0.05)


@pytest.fixture
def work() -> Work:
    return Work()


@pytest.fixture
def asked(work: Work) -> Iterator[Coalescer]:
    asked = Coalescer("test", work)
    yield asked
    work.open.set()
    asked.close(5)


def test_all_who_ask_at_once_get_one_answer_and_who_asks_during_it_another(
    asked: Coalescer, work: Work
) -> None:
    work.open.clear()
    for _ in range(10):
        asked.ask()
    asked.start()
    wait_until(lambda: work.done, "the first answer")
    for _ in range(10):
        asked.ask()
    work.open.set()
    wait_until(lambda: len(work.done) == 2, "the second answer")
    asked.close(5)
    assert work.done == [True, True]


def test_it_is_also_done_unasked() -> None:
    work = Work()
    often = Coalescer("test", work, every_s=0.01)
    often.start()
    wait_until(lambda: len(work.done) >= 2, "it to be done twice")
    often.close(5)
    assert not any(work.done)
