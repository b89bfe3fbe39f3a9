# SPDX-License-Identifier: Apache-2.0
"""`VPIsolationFilter` for Nova's scheduler: no `strict` server where it or another is hurt.

What a host would mean for a request is worked out in `vp_scheduler.placement`. Enable the filter in
nova.conf with `[filter_scheduler] available_filters` and `enabled_filters`.
"""

from collections.abc import Iterable
from typing import Any

import nova.conf
from nova.scheduler import filters
from nova.scheduler.utils import request_is_rebuild

from nova_vp.core.types.guest import Isolation
from vp_scheduler.placement import process_state
from vp_scheduler.placement.host_digest import Loss, Place
from vp_scheduler.placement.host_scorer import MAX_TOLD, HostScorer, Request, log_request
from vp_scheduler.placement.settings import Settings, SettingsReader


class VPIsolationFilter(filters.BaseHostFilter):  # type: ignore[misc]
    """Hosts of which nothing is known pass, unless `[vp_scheduler] stale_hosts` says `refuse`."""

    RUN_ON_REBUILD = False

    def __init__(self, scorer: HostScorer | None = None) -> None:
        """Nova gives nothing: then the process's shared host view is used."""
        super().__init__()
        process_state.register_opts(nova.conf.CONF)
        if scorer is None:
            process_state.prepare(nova.conf.CONF)
        self._scorer = scorer
        self._settings = SettingsReader(nova.conf.CONF)

    def filter_all(self, filter_obj_list: Iterable[Any], spec_obj: Any) -> Iterable[Any]:
        scorer = self._scorer or process_state.scorer()
        request = scorer.read(spec_obj)
        if request_is_rebuild(spec_obj):
            return filter_obj_list
        if request.llc_permit:
            filter_obj_list = self._with_permits(scorer, filter_obj_list, request)
        if request.isolation is not Isolation.STRICT:
            return filter_obj_list
        settings = self._settings.read()
        limit = settings.good_enough_ratio
        host_states = list(filter_obj_list)
        losses = scorer.losses(scorer.look(host_states, request), request, limit, Loss.STRICT_HURT)
        facts = [
            f"{host.host}: {describe(scorer.place(host, request, limit), loss, settings)}"
            for host, loss in zip(host_states[:MAX_TOLD], losses, strict=False)
        ]
        log_request("VPIsolationFilter", request, facts, len(host_states))
        unknown_passes = passes(None, settings)
        return [
            host_state
            for host_state, loss in zip(host_states, losses, strict=True)
            if (unknown_passes if loss is None else loss <= limit)
        ]

    def _with_permits(
        self, scorer: HostScorer, host_states: Iterable[Any], request: Request
    ) -> Iterable[Any]:
        """Those that have enough of the pollution permits left."""
        settings = self._settings.read()
        most = settings.llc_permits_per_domain
        if not most:
            return host_states
        listed = list(host_states)
        found = [scorer.has_permits(host, request, most) for host in listed]
        facts = [
            f"{host.host}: {describe_permits(has_room)}"
            for host, has_room in zip(listed, found, strict=True)
        ]
        log_request("VPIsolationFilter, LLC permits", request, facts[:MAX_TOLD], len(listed))
        unknown_passes = not settings.refuses_unknown
        return [
            host
            for host, has_room in zip(listed, found, strict=True)
            if (unknown_passes if has_room is None else has_room)
        ]


def describe_permits(has_room: bool | None) -> str:
    if has_room is None:
        return "no fresh digest"
    return "enough left" if has_room else "rejected, no LLC domain has enough left"


def passes(loss: float | None, settings: Settings) -> bool:
    """None: nothing is known of the host."""
    return not settings.refuses_unknown if loss is None else loss <= settings.good_enough_ratio


def describe(place: Place | None, loss: float | None, settings: Settings) -> str:
    decision = "passed" if passes(loss, settings) else "rejected"
    if place is None or loss is None:
        return f"{decision}, no fresh digest"
    limit = settings.good_enough_ratio
    sign = "<=" if loss <= limit else ">"
    return f"{decision}, {place}: predicted degradation {loss:.1%} {sign} {limit:.1%}{place.cause}"
