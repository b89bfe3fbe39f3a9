# SPDX-License-Identifier: Apache-2.0
"""Digests and learned profiles into a scheduler process's view, and Nova's requests judged by it.

What is refused leaves the view as it was, what is accepted changes the sender's entry alone, and
every host can be judged whatever its digest says.
"""

import itertools
import math
from typing import Any

from nova_vp import wire
from nova_vp.core.types.service_level import ServiceClass
from nova_vp.signing.keyring import ToldKeys
from tests.fuzz import seeds
from tests.fuzz.dice import HOSTS, UUIDS, Dice
from tests.fuzz.oracle import expect, is_finite
from tests.fuzz.subject import ACCEPTED, REFUSED, Bus
from tests.messages import digest_text, profiles_text
from vp_scheduler.placement.class_room import Wish, fit_ratio
from vp_scheduler.placement.group_members import group_members_of
from vp_scheduler.placement.host_digest import HostDigest, Loss
from vp_scheduler.placement.host_view import HostView
from vp_scheduler.placement.listener import DigestEndpoint
from vp_scheduler.placement.scoring import Ask, score_host, usual_loss
from vp_scheduler.placement.waiting import Waiting

STALE_S = 180.0
ASKS = (Ask(0, 1, 0.05), Ask(9, 4, 0.05, 0), Ask(8, 64, 0.2))
ON_THEIR_WAY = (Waiting(8, 2, is_strict=True), Waiting(0, 1, is_sibling=True))
WISHES = tuple(Wish(one, 2, wire.mark_of("p1")) for one in ServiceClass)
KIN = frozenset(map(wire.mark_of, UUIDS[:3]))


class Digests:
    name, weight = "digests", 24

    def __init__(self) -> None:
        self._now_s = 1000.0
        self.view = HostView(STALE_S, clock=lambda: self._now_s)
        self._endpoint = DigestEndpoint(self.view, ToldKeys())
        self._bus = Bus([self._endpoint])

    def make(self, dice: Dice) -> Any:
        if dice.is_so(0.02):
            return [dice.pick(("digest", "profiles", "refusals")), {"text": dice.odd()}]
        if dice.is_so(0.25):
            return ["profiles", {"text": dice.json_text(dice.bent(seeds.profiles(dice)))}]
        return ["digest", {"text": dice.json_text(dice.bent(seeds.a_host_digest(dice)))}]

    def take(self, payload: Any) -> str:
        self._now_s += 0.1
        before, refused = dict(self.view.read()[0]), self._endpoint.refusals.counts.total()
        outcome = self._bus.send(*payload)
        if self._endpoint.refusals.counts.total() != refused:
            outcome = REFUSED
        after = self.view.read()[0]
        changed = {h for h in before.keys() | after.keys() if before.get(h) is not after.get(h)}
        if outcome == REFUSED or payload[0] != "digest":
            expect(not changed, f"entries of {changed} changed")
            return outcome
        message = wire.decode(wire.DIGEST_TOPIC, payload[1]["text"])
        expect(changed == {message["host"]}, f"a digest of {message['host']} changed {changed}")
        _judge(after[message["host"]])
        return outcome

    def settle(self) -> None:
        """Once all that came is old, good ones land."""
        for flavor, image, _ in seeds.LEARNED:
            for told in (
                self.view.learned.of_image(flavor, image),
                self.view.learned.of_flavor(flavor),
            ):
                expect(told is None or type(told) is int, f"learned class {told!r}")
        self._now_s += 2 * STALE_S
        for host in HOSTS:
            sent = {"text": digest_text(host, known=UUIDS[:2])}
            expect(self.take(["digest", sent]) == ACCEPTED, f"a good digest of {host} is refused")
            expect(self.view.get(host) is not None, f"a good digest of {host} is not kept")
        good = {"text": profiles_text(("good", "", 5), sent=1.0)}
        expect(self.take(["profiles", good]) == ACCEPTED, "good profiles are refused")
        expect(self.view.learned.of_image("good", "") == 5, "good profiles are not kept")


def _judge(digest: HostDigest) -> None:
    whole = (digest.epoch, digest.sequence, *digest.cpus, *digest.vcpus, *digest.domain_ids)
    expect(all(type(number) is int for number in whole), f"numbers that are not whole: {whole}")
    for ask, waiting in itertools.product(ASKS, ((), ON_THEIR_WAY)):
        place = score_host(digest, ask, waiting, group_members_of(digest, KIN))
        if place is None:
            expect(not digest.cpus, "nothing can be said of a host with domains")
            continue
        for loss in place.losses:
            expect(is_finite(loss) and 0 <= loss <= 1, f"{ask}: losses {place.losses}")
        usual = None if waiting else usual_loss(ask, int(Loss.WORST))(digest)
        if usual is not None:
            alone = score_host(digest, ask).losses[Loss.WORST]
            expect(math.isclose(usual, alone, abs_tol=1e-6), f"{ask}: {usual} and {alone}")
    if digest.room is not None:
        for wish in WISHES:
            ratio = fit_ratio(digest.room, wish, ON_THEIR_WAY)
            expect(0 <= ratio <= 1, f"{wish}: fit {ratio}")
    for uuid in UUIDS:
        expect(0 <= digest.class_of(uuid) <= wire.UNKNOWN_CLASS, "a class that there is not")
