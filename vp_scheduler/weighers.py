# SPDX-License-Identifier: Apache-2.0
"""`VPInterferenceWeigher` for Nova's scheduler: rather where least performance would be lost.

Weights lie between 0 and 1 with fixed ends, so that Nova's normalisation neither blows up small
differences nor flattens them beside one bad host. Losses up to `strict_max_hurt_ratio` count as
none: among good hosts Nova's own weighers decide.
"""

import math
from collections.abc import Sequence
from typing import Any

import nova.conf
from nova.scheduler import utils, weights

from nova_vp.core.types.guest import Isolation
from vp_scheduler.placement import process_state
from vp_scheduler.placement.class_room import served
from vp_scheduler.placement.host_digest import Loss, Place
from vp_scheduler.placement.host_scorer import MAX_TOLD, HostScorer, log_request
from vp_scheduler.placement.settings import SettingsReader

MULTIPLIER = "interference_weight_multiplier"


class VPInterferenceWeigher(weights.BaseHostWeigher):  # type: ignore[misc]
    minval = 0.0
    maxval = 1.0

    def __init__(self, scorer: HostScorer | None = None) -> None:
        """Nova gives nothing: then the process's shared host view is used."""
        super().__init__()
        process_state.register_opts(nova.conf.CONF)
        if scorer is None:
            process_state.prepare(nova.conf.CONF)
        self._scorer = scorer
        self._settings = SettingsReader(nova.conf.CONF)
        self._multiplier = 0.0

    def weight_multiplier(self, host_state: Any) -> float:
        if not host_state.aggregates:
            return self._multiplier
        found = float(utils.get_weight_multiplier(host_state, MULTIPLIER, self._multiplier))
        # One `nan` in an aggregate would leave all hosts in no order at all.
        return found if math.isfinite(found) else self._multiplier

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        return self._weigh([host_state], weight_properties)[0]

    def weigh_objects(self, weighed_obj_list: Sequence[Any], weight_properties: Any) -> list[float]:
        return self._weigh([weighed.obj for weighed in weighed_obj_list], weight_properties)

    def _weigh(self, host_states: Sequence[Any], spec: Any) -> list[float]:
        scorer = self._scorer or process_state.scorer()
        request = scorer.read(spec)
        settings = self._settings.read()
        # Nova asks for it after this, once per host: too often to look into the configuration.
        self._multiplier = settings.multiplier
        good_enough = settings.good_enough_ratio
        # Without isolation only others matter.
        loss = Loss.RESIDENT if request.isolation is Isolation.NONE else Loss.WORST
        seen = scorer.look(host_states, request)
        losses = scorer.losses(seen, request, good_enough, loss)
        found = [None if lost is None else score(lost, good_enough) for lost in losses]
        if request.wish is not None:
            found = with_classes(found, scorer.fit_ratios(seen, request))
        known = [one for one in found if one is not None]
        # Of unknown hosts nothing good and nothing bad is supposed.
        neutral = sum(known) / len(known) if known else self.maxval
        weights = [neutral if one is None else one for one in found]
        facts = [
            f"{host.host}: {weight:.3f}, {describe(scorer.place(host, request, good_enough))}"
            for host, weight in zip(host_states[:MAX_TOLD], weights, strict=False)
        ]
        log_request("VPInterferenceWeigher", request, facts, len(host_states))
        return weights


def score(lost: float, good_enough: float) -> float:
    """1 where nothing that matters is lost, down to 0."""
    return 1.0 if lost <= good_enough else (1 - lost) / (1 - good_enough)


def with_classes(
    scores: Sequence[float | None], ratios: Sequence[float | None]
) -> list[float | None]:
    """The less a host serves the newcomer's class, the less it weighs. Of hosts that do not say how
    much, nothing good and nothing bad is supposed."""
    known = [one for one in ratios if one is not None]
    neutral = sum(known) / len(known) if known else 1.0
    return [
        None if one is None else served(one, neutral if ratio is None else ratio)
        for one, ratio in zip(scores, ratios, strict=True)
    ]


def describe(place: Place | None) -> str:
    if place is None:
        return "no fresh digest"
    return (
        f"{place}: newcomer loses {place.losses[Loss.NEWCOMER]:.1%}, "
        f"residents up to {place.losses[Loss.RESIDENT]:.1%}{place.cause}"
    )
