# SPDX-License-Identifier: Apache-2.0
"""An agent on a host in memory that was told of overlays, and the calls that are made there."""

import itertools
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from nova_vp.core.types.knob import CpuWeight
from nova_vp.core.types.overlay import Call, CallAnswer, CallResource, Direction, Overlay, Verb
from nova_vp.overlay_message import overlays_text
from tests.policies import a_policy
from tests.unit.agent_host import World
from tests.unit.core.build import COMPUTE
from tests.waiting import wait_until

SHOP, MILLS = "00000000-0000-4000-8000-00000000000a", "00000000-0000-4000-8000-00000000000b"
PROJECT = "p1"
UP, DOWN = Direction.UP, Direction.DOWN
MEMORY, IO = CallResource.MEMORY_SIZE, CallResource.IO
_numbers = itertools.count()
_versions = itertools.count(1)


class OverlayWorld(World):
    """`web` and `db` are the shop's, `mill` is the mills'."""

    def open(self) -> "OverlayWorld":
        self.policy = a_policy(controllers=("overlays",))
        self.web, self.db, self.mill = (
            self.boot(COMPUTE, cap_floor_ratio=0.1, project_id=PROJECT) for _ in range(3)
        )
        self.start_agent()
        self.tell({SHOP: (self.web, self.db), MILLS: (self.mill,)})
        self.tick(3)
        return self

    def tell(
        self,
        members: dict[str, Iterable[str]],
        version: int | None = None,
        target: float | None = None,
    ) -> int | None:
        overlays = [
            Overlay(i, i, PROJECT, frozenset(uuids), target=target) for i, uuids in members.items()
        ]
        text = overlays_text(next(_versions) if version is None else version, overlays)
        return self.control.take_overlays(text)

    def call(self, verb: Verb, server: str = "", of: str = SHOP, **about: object) -> CallAnswer:
        [answer] = self.calls(a_call(verb, server, of, **about))
        return answer

    def calls(self, *calls: Call) -> list[CallAnswer]:
        """Made at the same time."""
        with ThreadPoolExecutor(len(calls)) as pool:
            answers: list[Future[CallAnswer]] = []
            for call in calls:
                answer = pool.submit(self.control.call_overlay, call, None)
                self._wait_until_made(call, answer)
                answers.append(answer)
            self.agent.answer_calls(self.now_s)
            return [answer.result(5) for answer in answers]

    def _wait_until_made(self, call: Call, answer: Future[CallAnswer]) -> None:
        """Or refused at once."""
        key = (call.overlay_id, call.id)
        wait_until(lambda: answer.done() or key in self.control.calls._waiting, "it is made")

    def weight(self, uuid: str) -> CpuWeight:
        return self.host.guests[uuid].guest.cpu_weight


def open_world(folder: Path) -> OverlayWorld:
    return OverlayWorld(folder).open()


def a_call(verb: Verb, server: str = "", of: str = SHOP, **about: object) -> Call:
    return Call(f"c{next(_numbers)}", of, verb, guest_uuid=server, **about)
