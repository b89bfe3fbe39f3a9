# SPDX-License-Identifier: Apache-2.0
"""Nova's own requests with whatever their flavors, hints, groups and images say, through the filter
and the weigher inside Nova's handlers.
"""

import warnings
from typing import Any

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of itself
    from nova import objects

    objects.register_all()
    from tests.unit.scheduler.cloud import CALM, HOSTILE, Cloud, a_host, a_request

from tests.fuzz.dice import ODD_TEXTS, UUIDS, Dice
from tests.fuzz.guests import extra_specs
from tests.fuzz.oracle import expect, is_finite
from tests.fuzz.subject import ACCEPTED, REFUSED

TEXTS = tuple(text for text in ODD_TEXTS if text.isprintable())
"""That came through Nova's API and database."""
HINTS = {"group": [UUIDS[4]], "same_host": list(UUIDS[:2]), "vp:host": ["vp1"]}


class Placements:
    name, weight = "placements", 1

    def __init__(self) -> None:
        self._cloud = Cloud(vp1=CALM, vp2=HOSTILE, vp3=())
        self._hosts = [a_host(name, servers=UUIDS[:2], more=1) for name in ("vp1", "vp2", "vp4")]

    def make(self, dice: Dice) -> Any:
        texts = [dice.pick((*TEXTS, *UUIDS, "vp1")) for _ in range(3)]
        bent = dice.bent(HINTS, 1)
        names = bent if isinstance(bent, dict) else HINTS
        hints = {name: [dice.pick(TEXTS)] for name in names}
        server = dice.pick(UUIDS)
        return [extra_specs(dice), dice.pick((1, 2, 64, 2**31)), [server, *texts], hints]

    def take(self, payload: Any) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of what is no UUID
            return self._ask(*payload)

    def _ask(self, specs: Any, vcpus: int, texts: list[str], hints: Any) -> str:
        server, member, host, image = texts
        group = objects.InstanceGroup(uuid=UUIDS[4], members=[member, UUIDS[0]], hosts=[host])
        request = a_request(
            None,
            vcpus,
            server,
            {"ignore_hosts": [host], "instance_group": group, "image": objects.ImageMeta(id=image)},
        )
        request.flavor.extra_specs = specs
        request.scheduler_hints = hints
        passing = self._cloud.passing(request, self._hosts)
        ranked = self._cloud.ranked(request, self._hosts)
        expect(all(map(is_finite, ranked.values())), f"weights {ranked}")
        strict = specs.get("vp:isolation") == "strict"
        return REFUSED if strict and len(passing) < len(self._hosts) else ACCEPTED

    def settle(self) -> None:
        """Nothing is left."""
