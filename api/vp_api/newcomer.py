# SPDX-License-Identifier: Apache-2.0
"""Who is asked about in a what-if: what Nova's schedulers would take it for.

Of a server that runs, what it was measured to be while undisturbed; of a flavor what it says, else
what was learned of it and its image; else unknown. vp-api has no Nova: whoever asks about a flavor
says what is in it, and neither `vp:expects` of a running server nor its server group is known here.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from nova_vp import flavor_specs, wire
from nova_vp.core.types.guest import Isolation
from nova_vp.newcomer_class import median_class
from vp_api.errors import ApiError, Code
from vp_api.handlers.vps import find
from vp_api.operation import Call
from vp_scheduler.placement.scoring import Ask


class Newcomer(NamedTuple):
    ask: Ask
    isolation: Isolation
    source: str
    """How its class is known: a code."""
    host: str = ""
    """Where it runs now; empty: nowhere."""


def newcomer_of(call: Call, good_enough_ratio: float) -> Newcomer:
    """Raises ApiError."""
    if "server_id" in call.body:
        return _server(call, call.body["server_id"], good_enough_ratio)
    return _flavor(call, call.body["flavor"], good_enough_ratio)


def _server(call: Call, server_id: str, good_enough_ratio: float) -> Newcomer:
    report = find(call, server_id)
    # What was on a host that is silent may be anywhere, and may do other work by now.
    is_stale = report.age.is_stale
    number = None if is_stale else call.services.stored.browser.class_of(report.server_id)
    source = "unknown" if number is None else "measured"
    number = wire.UNKNOWN_CLASS if number is None else number
    ask = Ask(number, report.vp["vcpus"], good_enough_ratio)
    isolation = Isolation(report.vp["isolation"])
    host = "" if is_stale else report.record.host
    return Newcomer(ask, isolation, source, host)


def _flavor(call: Call, asked: Mapping[str, Any], good_enough_ratio: float) -> Newcomer:
    try:
        flavor = flavor_specs.parse(asked.get("extra_specs", {}))
    except flavor_specs.InvalidFlavorSpec as exc:
        raise ApiError(Code.BAD_REQUEST, f"Correct the extra specs: {exc}") from exc
    vcpus = asked["vcpus"]
    if flavor.expects is not None:
        ask = Ask(flavor.expects, vcpus, good_enough_ratio)
        return Newcomer(ask, flavor.isolation, "flavor")
    learned = _learned(call, asked.get("name", ""), asked.get("image", ""))
    source = "unknown" if learned is None else "learned"
    ask = Ask(wire.UNKNOWN_CLASS, vcpus, good_enough_ratio, learned)
    return Newcomer(ask, flavor.isolation, source)


def _learned(call: Call, flavor: str, image: str) -> int | None:
    """As the schedulers are taught it: of enough projects, the median."""
    found = call.services.stored.browser.classes_of(flavor, image)
    votes = {one.vp_class: one.projects for one in found}
    least = call.services.conf.vp_scheduler.learn_from_projects
    return median_class(votes) if votes and sum(votes.values()) >= least else None
