# SPDX-License-Identifier: Apache-2.0
"""`VPInterferenceWeigher` for Nova's scheduler: rather where least performance would be lost.

Weights lie between 0 and 1 with fixed ends, so that Nova's normalisation neither blows up small
differences nor flattens them beside one bad host. Losses up to `strict_max_hurt_ratio` count as
none: among good hosts Nova's own weighers decide.
"""

from collections.abc import Sequence
from typing import Any

import nova.conf
from nova.scheduler import utils, weights

from nova_vp.core.model import Isolation
from vp_scheduler import shared
from vp_scheduler.judge import Verdict
from vp_scheduler.placement import MAX_TOLD, Placement, Request, Settings, tell

MULTIPLIER = "interference_weight_multiplier"


class VPInterferenceWeigher(weights.BaseHostWeigher):
    minval = 0.0
    maxval = 1.0

    def __init__(self, placement: Placement | None = None) -> None:
        """Nova gives nothing: then the process's shared host view is used."""
        super().__init__()
        shared.register_opts(nova.conf.CONF)
        if placement is None:
            shared.prepare(nova.conf.CONF)
        self._placement = placement
        self._multiplier = 0.0

    def weight_multiplier(self, host_state: Any) -> float:
        if not host_state.aggregates:
            return self._multiplier
        return float(utils.get_weight_multiplier(host_state, MULTIPLIER, self._multiplier))

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        return self._weigh([host_state], weight_properties)[0]

    def weigh_objects(self, weighed_obj_list: Sequence[Any], weight_properties: Any) -> list[float]:
        return self._weigh([weighed.obj for weighed in weighed_obj_list], weight_properties)

    def _weigh(self, host_states: Sequence[Any], spec: Any) -> list[float]:
        placement = self._placement or shared.placement()
        request = placement.flavors.read(spec)
        settings = Settings.read(nova.conf.CONF)
        # Nova asks for it after this, once per host: too often to look into the configuration.
        self._multiplier = float(nova.conf.CONF.vp_scheduler.interference_weight_multiplier)
        verdicts = [placement.judge(host_state, request, settings) for host_state in host_states]
        found = [score(v, request, settings) if v else None for v in verdicts]
        known = [one for one in found if one is not None]
        if not known:
            return [self.maxval] * len(host_states)
        # Of unknown hosts nothing good and nothing bad is supposed.
        neutral = sum(known) / len(known)
        scores = [neutral if one is None else one for one in found]
        told = zip(host_states[:MAX_TOLD], verdicts, scores, strict=False)
        facts = [f"{h.host}: {s:.3f}, {describe(v)}" for h, v, s in told]
        tell("VPInterferenceWeigher", request, facts, len(host_states))
        return scores


def score(verdict: Verdict, request: Request, settings: Settings) -> float:
    """1 where nothing that matters is lost, down to 0. Without isolation only others matter."""
    lost = verdict.worst_ratio
    if request.isolation is Isolation.NONE:
        lost = verdict.resident_ratio
    good_enough = settings.good_enough_ratio
    if lost <= good_enough:
        return 1.0
    return (1 - lost) / (1 - good_enough)


def describe(verdict: Verdict | None) -> str:
    if verdict is None:
        return "no fresh digest"
    return (
        f"{verdict.place}: newcomer loses {verdict.newcomer_ratio:.1%}, "
        f"residents up to {verdict.resident_ratio:.1%}"
    )
