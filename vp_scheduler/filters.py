# SPDX-License-Identifier: Apache-2.0
"""`VPIsolationFilter` for Nova's scheduler: no `strict` server where it or another is hurt.

Thin: what a host would mean for a request is told by `vp_scheduler.placement`. Enable it in
nova.conf with `[filter_scheduler] available_filters` and `enabled_filters`.
"""

from collections.abc import Iterable
from typing import Any

import nova.conf
from nova.scheduler import filters
from nova.scheduler.utils import request_is_rebuild

from nova_vp.core.model import Isolation
from vp_scheduler import shared
from vp_scheduler.judge import Verdict
from vp_scheduler.placement import MAX_TOLD, Placement, Settings, tell


class VPIsolationFilter(filters.BaseHostFilter):
    """Hosts of which nothing is known pass, unless `[vp_scheduler] stale_hosts` says `refuse`."""

    RUN_ON_REBUILD = False

    def __init__(self, placement: Placement | None = None) -> None:
        """Nova gives nothing: then the process's shared host view is used."""
        super().__init__()
        shared.register_opts(nova.conf.CONF)
        if placement is None:
            shared.prepare(nova.conf.CONF)
        self._placement = placement

    def filter_all(self, filter_obj_list: Iterable[Any], spec_obj: Any) -> Iterable[Any]:
        placement = self._placement or shared.placement()
        request = placement.flavors.read(spec_obj)
        if request.isolation is not Isolation.STRICT or request_is_rebuild(spec_obj):
            return filter_obj_list
        settings = Settings.read(nova.conf.CONF)
        passed, facts = [], []
        count = 0
        for host_state in filter_obj_list:
            verdict = placement.judge(host_state, request, settings)
            if passes(verdict, settings):
                passed.append(host_state)
            count += 1
            if count <= MAX_TOLD:
                facts.append(f"{host_state.host}: {describe(verdict, settings)}")
        tell("VPIsolationFilter", request, facts, count)
        return passed


def passes(verdict: Verdict | None, settings: Settings) -> bool:
    if verdict is None:
        return not settings.refuses_unknown
    return verdict.strict_hurt_ratio <= settings.good_enough_ratio


def describe(verdict: Verdict | None, settings: Settings) -> str:
    decision = "passed" if passes(verdict, settings) else "rejected"
    if verdict is None:
        return f"{decision}, no fresh digest"
    hurt, limit = verdict.strict_hurt_ratio, settings.good_enough_ratio
    sign = "<=" if hurt <= limit else ">"
    return f"{decision}, {verdict.place}: predicted hurt {hurt:.1%} {sign} {limit:.1%}"
